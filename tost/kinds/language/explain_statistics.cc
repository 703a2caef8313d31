#include "tost/kinds/language/explain_statistics.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/explain/trace_on_cpu.h"
#include "tost/kinds/language/rates.h"

namespace tost {

using torch::Tensor;

namespace {

// Sums over windows of one layer.
class TextLayerSums {
 public:
  TextLayerSums(int64_t vocab, int64_t heads, int64_t length)
      : heads_(heads),
        counts_(torch::zeros({vocab}, torch::kDouble)),
        memberships_(torch::zeros({vocab, heads}, torch::kDouble)),
        effects_(torch::zeros({vocab}, torch::kDouble)),
        entropy_(torch::zeros({length}, torch::kDouble)),
        entropy_squares_(torch::zeros({length}, torch::kDouble)),
        gate_(torch::zeros({heads}, torch::kDouble)) {}

  void add(const Tensor& ids, const TextLayer& layer) {
    counts_.index_add_(0, ids, torch::ones({ids.size(0)}, torch::kDouble));
    effects_.index_add_(0, ids, layer.effect[0]);
    if (layer.gate.defined()) gate_ += layer.gate[0].sum(1);
    has_gate_ |= layer.gate.defined();
    if (!layer.pi.defined()) return;
    has_memberships_ = true;
    memberships_.index_add_(0, ids, layer.pi[0].t());
    entropy_ += layer.entropy[0];
    entropy_squares_ += layer.entropy[0].square();
  }

  TextLayerStatistics finish(int64_t windows, const TextStatisticsOptions& options) const {
    TextLayerStatistics s;
    const double tokens = counts_.sum().item<double>();
    s.effect_mean = effects_.sum().item<double>() / tokens;
    s.strongest = ranked(effects_, s.effect_mean, options);
    if (has_gate_) s.gate = gate_ / tokens;
    s.has_memberships = has_memberships_;
    if (!has_memberships_) return s;
    s.share = memberships_.sum(0) / tokens;
    s.entropy = entropy_ / double(windows);
    s.entropy_spread =
        (entropy_squares_ / double(windows) - s.entropy.square()).clamp_min(0).sqrt();
    s.entropy_mean = s.entropy.mean().item<double>();
    for (int64_t head = 0; head < heads_; ++head) {
      s.taken.push_back(
          ranked(memberships_.select(1, head), s.share[head].item<double>(), options));
    }
    return s;
  }

 private:
  // Tokens by their mean of what `sums` adds up, highest first and above that of all tokens; those
  // that occur too seldom are left out.
  std::vector<TokenMean> ranked(const Tensor& sums, double overall,
                                const TextStatisticsOptions& options) const {
    const Tensor seen = counts_.ge(double(options.least)).nonzero().squeeze(1);
    const Tensor means = sums.index_select(0, seen) / counts_.index_select(0, seen);
    const Tensor order = means.argsort(/*stable=*/true, 0, /*descending=*/true);
    std::vector<TokenMean> rows;
    for (int64_t i = 0; i < std::min(options.most, order.size(0)); ++i) {
      const int64_t place = order[i].item<int64_t>(), id = seen[place].item<int64_t>();
      const double mean = means[place].item<double>();
      if (!(mean > overall)) break;
      rows.push_back({id, int64_t(counts_[id].item<double>()), mean, mean / overall});
    }
    return rows;
  }

  int64_t heads_;
  Tensor counts_, memberships_, effects_, entropy_, entropy_squares_, gate_;
  bool has_gate_ = false, has_memberships_ = false;
};

// The exact rate in the whole space is left out: its cost grows with the cube of the width.
LayerView view_of(const GptTrace& trace) {
  return {.w = trace.mixer.w,
          .pi = trace.mixer.pi,
          .mixer_input = {},
          .mixer_output = trace.mixer_output,
          .output = trace.output};
}

}  // namespace

int64_t window_length(const LanguageModel& model, const TokenSource& source, int64_t wanted) {
  if (source.size() < 2) {
    fail_data(source.name(), " has ", source.size(), " token; at least 2 are needed for a window.");
  }
  const int64_t length = std::min(wanted > 0 ? wanted : model.config().block, model.max_context());
  return std::min(length, source.size() - 1);
}

Tensor window_ids(const TokenSource& source, const TextWindows& windows, int64_t length,
                  int64_t index) {
  return crop_batch(source, 1, length, windows.seed, index).first;
}

TextStatistics text_statistics(LanguageModel& model, const TokenSource& source,
                               const TextStatisticsOptions& options) {
  if (options.windows.count < 1) {
    fail_usage("Statistics over ", options.windows.count, " windows are impossible; at least 1 is ",
               "needed.");
  }
  TextStatistics result;
  result.length = window_length(model, source, options.windows.length);
  result.least = options.least;
  const auto& config = model.config();
  std::vector<TextLayerSums> sums;
  for (int64_t i = 0; i < config.depth; ++i) {
    sums.emplace_back(config.vocab, config.heads, result.length);
  }
  std::vector<LayerSums> rates;
  for (const auto& block : blocks_of(model)) {
    rates.emplace_back(on_cpu(block->attn->subspaces()), /*full=*/true, options.bound);
  }
  double loss = 0, squares = 0;
  for (int64_t i = 0; i < options.windows.count; ++i) {
    if (i > 0 && options.stop != nullptr && options.stop->load()) break;
    const Tensor ids = window_ids(source, options.windows, result.length, i);
    LanguageTrace inside;
    const TextTrace trace = trace_text(model, ids, &inside);
    auto measured = layer_rates(model, inside, wanted_rates(/*full=*/true, options.bound));
    for (LayerRates& layer : measured) move_to_cpu(layer);
    for (GptTrace& block : inside.blocks) move_to_cpu(block);
    for (size_t k = 0; k < rates.size(); ++k) {
      rates[k].add(view_of(inside.blocks[k]), measured[k]);
    }
    for (size_t k = 0; k < sums.size(); ++k) sums[k].add(ids[0], trace.layers[k]);
    const double mean = trace.loss.mean().item<double>();
    loss += mean;
    squares += mean * mean;
    ++result.windows;
    if (options.progress) options.progress(i + 1, options.windows.count);
  }
  const auto n = double(result.windows);
  result.loss = loss / n;
  result.loss_spread = std::sqrt(std::max(0.0, squares / n - result.loss * result.loss));
  for (const auto& layer : rates) result.rates.push_back(layer.result());
  for (const auto& layer : sums) result.layers.push_back(layer.finish(result.windows, options));
  return result;
}

}  // namespace tost
