#include "tost/kernels/cuda/causal_launch-inl.h"
