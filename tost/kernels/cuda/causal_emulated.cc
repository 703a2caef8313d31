// The same source through the emulator, for the tests.
#include <cmath>

#include "tost/kernels/cuda/causal_launch-inl.h"
