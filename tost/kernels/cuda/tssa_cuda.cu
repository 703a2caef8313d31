#include "tost/kernels/cuda/tssa_launch-inl.h"
