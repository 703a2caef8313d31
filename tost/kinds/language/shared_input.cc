#include "tost/kinds/language/shared_input.h"

namespace tost {

using torch::Tensor;

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
