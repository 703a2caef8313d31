#include "tost/kernels/cuda/means_launch-inl.h"
