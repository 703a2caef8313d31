#include "tost/kernels/cuda/rows_launch-inl.h"
