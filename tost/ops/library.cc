// The operators of torch.ops.tost.
#include <torch/library.h>

#include "tost/ops/schemas.h"

TORCH_LIBRARY(tost, m) {
  for (const char* schema : tost::kTssaSchemas) m.def(schema);
}
