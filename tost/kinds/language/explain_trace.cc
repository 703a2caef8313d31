#include "tost/kinds/language/explain_trace.h"

#include <algorithm>
#include <cmath>

#include "tost/explain/measures.h"
#include "tost/explain/trace_on_cpu.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/evaluation_mode.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kTracedLogits = int64_t{1} << 24;

// One row of logits a token, made for a few tokens at a time.
void predict_tokens(const LanguageModel& model, const Tensor& hidden, const Tensor& ids,
                    TextTrace& trace) {
  const int64_t tokens = ids.size(1);
  const int64_t step = std::max<int64_t>(
      1, kTracedLogits / (model.config().vocab * std::max<int64_t>(1, ids.size(0))));
  std::vector<Tensor> loss{torch::empty({ids.size(0), 0}, torch::kDouble)};
  std::vector<Tensor> likely{torch::empty({ids.size(0), 0}, torch::kBool)};
  std::vector<Tensor> guess{torch::empty({ids.size(0), 0}, torch::kInt64)};
  for (int64_t t = 0; t + 1 < tokens; t += step) {
    const int64_t count = std::min(step, tokens - 1 - t);
    const Tensor logits = on_cpu(model.logits(hidden.narrow(1, t, count))).to(torch::kDouble);
    const Tensor target = ids.narrow(1, t + 1, count);
    loss.push_back(logits.logsumexp(2) - logits.gather(2, target.unsqueeze(2)).squeeze(2));
    guess.push_back(logits.argmax(2));
    likely.push_back(guess.back().eq(target));
  }
  trace.loss = torch::cat(loss, 1);
  trace.likely = torch::cat(likely, 1);
  trace.guess = torch::cat(guess, 1);
}

Tensor norms(const Tensor& x) {
  return x.to(torch::kDouble).norm(2, -1);
}

// [B, T, C] → [B, H, T, P] float64.
Tensor by_head(const Tensor& x, int64_t heads) {
  return x.to(torch::kDouble).view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

TextLayer layer_of(const BlockTrace& block, const Block& weights, int64_t heads) {
  TextLayer layer;
  if (block.mixer.pi.defined()) {
    layer.pi = block.mixer.pi.to(torch::kDouble);
    layer.entropy = membership_entropy(layer.pi);
  }
  if (block.mixer.gate.defined()) {
    layer.gate = by_head(block.mixer.gate, heads).mean(-1);
  }
  if (block.mixer.group_means.defined()) {
    const auto means = by_head(block.mixer.group_means, heads);
    const auto own = by_head(block.mixer.values, heads);
    layer.mean_norm = norms(means);
    layer.mean_cosine = (means * own).sum(-1) / (layer.mean_norm * norms(own)).clamp_min(1e-12);
  }
  const Tensor added = (block.mixer_output * weights.gamma1).to(torch::kDouble);
  layer.effect = norms(added) / norms(block.mixed.to(torch::kDouble) - added).clamp_min(1e-12);
  layer.norm = norms(block.output);
  for (Tensor* x : {&layer.pi, &layer.entropy, &layer.gate, &layer.mean_norm, &layer.mean_cosine,
                    &layer.effect, &layer.norm}) {
    *x = on_cpu(*x);
  }
  return layer;
}

}  // namespace

bool descends_on_bound(const LanguageConfig& config, int64_t index) {
  const std::string mixer = mixer_of_block(config, index);
  const auto& o = config.options;
  return (mixer == "tssa" || mixer == "uniform") && o.conv == 0 && o.means == "none" && !o.gate;
}

Tensor memory_horizon(const TokenMixer& mixer) {
  Tensor log_rates;
  if (const auto* means = dynamic_cast<const CausalMeansMixer*>(&mixer)) {
    log_rates = means->rates->log_rates();
  } else if (const auto* tssa = dynamic_cast<const CausalTssaMixer*>(&mixer)) {
    log_rates = tssa->rates->log_rates();
  }
  if (!log_rates.defined()) return {};
  return -1 / torch::expm1(on_cpu(log_rates.detach()).to(torch::kDouble));
}

TextTrace trace_text(LanguageModel& model, const Tensor& ids, LanguageTrace* wanted) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  LanguageTrace own;
  LanguageTrace& inside = wanted != nullptr ? *wanted : own;
  const Tensor hidden = model.hidden(ids, nullptr, &inside);  // on the model's device, as `inside`
  TextTrace trace;
  predict_tokens(model, hidden, ids, trace);
  const auto& blocks = model.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto layer = layer_of(inside.blocks[i], *blocks[i], model.config().heads);
    layer.mixer = mixer_of_block(model.config(), static_cast<int64_t>(i));
    layer.uniform = layer.mixer == "uniform";
    layer.descends = descends_on_bound(model.config(), static_cast<int64_t>(i));
    trace.layers.push_back(std::move(layer));
  }
  return trace;
}

Tensor token_influence(TokenMixer& mixer, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const int64_t tokens = x.size(0);
  const Tensor batch = x.unsqueeze(0);
  const Tensor whole = mixer.forward(batch, {})[0].to(torch::kDouble);
  const Tensor size = whole.norm(2, 1);
  Tensor influence = torch::zeros({tokens, tokens}, whole.options());
  MixerState before;  // of the tokens before j
  for (int64_t j = 0; j + 1 < tokens; ++j) {
    MixerState state = before;
    const Tensor without = mixer.forward(batch.narrow(1, j + 1, tokens - j - 1),
                                         {.state = &state, .position = j + 1})[0];
    const Tensor changed =
        (whole.narrow(0, j + 1, tokens - j - 1) - without.to(torch::kDouble)).norm(2, 1);
    const Tensor later = size.narrow(0, j + 1, tokens - j - 1);
    influence[j]
        .narrow(0, j + 1, tokens - j - 1)
        .copy_(torch::where(later == 0, torch::zeros_like(later), changed / later));
    state.clear();
    mixer.forward(batch.narrow(1, j, 1), {.state = &before, .position = j});
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
