// The same source through the emulator, for the tests.
#include <cmath>

#include "tost/kernels/cuda/rows_launch-inl.h"
