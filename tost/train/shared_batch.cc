#include "tost/train/shared_batch.h"

#include "tost/kinds/language/model.h"

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

TaskInput language_input(const BatchShare& share, const Tensor& ids, const Tensor& targets,
                         int64_t samples) {
  const std::vector<Tensor> mine = rows_of(share, {ids, targets});
  double weight = 1;
  if (share.parts() > 1) {
    const auto count = [](const Tensor& t) { return t.ne(-1).sum().item<double>(); };
    weight = count(mine[1]) / count(targets);
  }
  return {{mine[0], mine[1], LanguageModel::asked_rows(mine[1])},
          samples / ids.size(0) * mine[0].size(0),
          weight};
}

}  // namespace tost
