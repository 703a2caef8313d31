#include "tost/kinds/language/explain_influence.h"

#include <algorithm>
#include <cmath>

#include "tost/explain/trace_on_cpu.h"

namespace tost {

using torch::Tensor;

Tensor token_influence(CausalMixer& mixer, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const int64_t tokens = x.size(0);
  const Tensor batch = x.unsqueeze(0);
  const Tensor whole = mixer.forward(batch, {})[0].to(torch::kDouble);
  const Tensor size = whole.norm(2, 1);
  Tensor influence = torch::zeros({tokens, tokens}, whole.options());
  MixerState before;  // of the tokens before j
  for (int64_t j = 0; j + 1 < tokens; ++j) {
    MixerState state = before;
    const Tensor without =
        mixer.forward(batch.narrow(1, j + 1, tokens - j - 1), {nullptr, &state, j + 1})[0];
    const Tensor changed =
        (whole.narrow(0, j + 1, tokens - j - 1) - without.to(torch::kDouble)).norm(2, 1);
    const Tensor later = size.narrow(0, j + 1, tokens - j - 1);
    influence[j]
        .narrow(0, j + 1, tokens - j - 1)
        .copy_(torch::where(later == 0, torch::zeros_like(later), changed / later));
    state.clear();
    mixer.forward(batch.narrow(1, j, 1), {nullptr, &before, j});
  }
  return on_cpu(influence);
}

Tensor influence_by_distance(const Tensor& influence) {
  const int64_t tokens = influence.size(0);
  Tensor means = torch::empty({std::max<int64_t>(0, tokens - 1)}, torch::kDouble);
  for (int64_t d = 1; d < tokens; ++d) means[d - 1] = influence.diagonal(d).mean();
  return means;
}

Tensor influence_of_tokens(const Tensor& influence, int64_t reach) {
  const int64_t tokens = influence.size(0);
  Tensor means = torch::full({tokens}, std::nan(""), torch::kDouble);
  for (int64_t j = 0; j + reach < tokens; ++j) {
    means[j] = influence[j].narrow(0, j + 1, reach).mean();
  }
  return means;
}

int64_t influence_reach(int64_t tokens) {
  return std::clamp<int64_t>(tokens / 2, 1, 32);
}

}  // namespace tost
