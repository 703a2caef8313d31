#include "tost/train/shared_batch.h"

namespace tost {

using torch::Tensor;

std::vector<Tensor> rows_of(const BatchShare& share, std::vector<Tensor> tensors) {
  if (share.parts() == 1) return tensors;
  for (Tensor& x : tensors) {
    if (!x.defined()) continue;
    x = x.narrow(0, share.first_row(x.size(0)), share.rows(x.size(0))).contiguous();
  }
  return tensors;
}

}  // namespace tost
