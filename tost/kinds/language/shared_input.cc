#include "tost/kinds/language/shared_input.h"

#include "tost/base/error.h"

namespace tost {

using torch::Tensor;

TaskInput language_input(const BatchShare& share, const Tensor& ids, const Tensor& targets,
                         int64_t samples) {
  std::vector<Tensor> mine = rows_of(share, {ids, targets});
  const int64_t rows = mine[0].size(0);
  for (Tensor& x : mine) x = tokens_of(share, x);
  double weight = 1;
  if (share.parts() * share.token_parts > 1) {
    const auto count = [](const Tensor& t) { return t.ne(-1).sum().item<double>(); };
    weight = count(mine[1]) / count(targets);
  }
  // A mean over no targets has no value, even if it counts nothing.
  if (weight == 0) mine[1].view({-1})[0] = 0;
  return {
      {mine[0], mine[1], LanguageModel::asked_rows(mine[1])}, samples / ids.size(0) * rows, weight};
}

void check_language_parts(const LanguageConfig& c, int64_t tokens, int64_t parts) {
  check_predicts(c, "dividing sequences");
  check_split_mixer(split_causal_mixer_names(), c.mixer);
  if (c.hybrid_every > 0) check_split_mixer(split_causal_mixer_names(), c.hybrid_mixer);
  if (tokens % parts != 0 || tokens / parts < c.options.conv) {
    fail_usage("A text of ", tokens, " tokens cannot be divided into ", parts, " equal parts",
               c.options.conv > 0 ? cat(" of ", c.options.conv, " tokens or more") : "",
               "; choose a block that sequence_parallel divides.");
  }
}

}  // namespace tost
