// The same source through the emulator, for the tests.
#include <cmath>

#include "tost/kernels/cuda/tssa_launch-inl.h"
