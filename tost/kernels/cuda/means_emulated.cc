// The same source through the emulator, for the tests.
#include <cmath>

#include "tost/kernels/cuda/means_launch-inl.h"
