#include "tost/kinds/language/explain_report.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/crop_batch.h"
#include "tost/nn/module_device.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr int64_t kReportTokens = 65'536;  // of all windows of a split
constexpr int64_t kShownLayers = 4;
constexpr int64_t kInfluenceTokens = 200;  // at the beginning of the passage

// The name of a split in a sentence: "training data", "validation data".
std::string data_of(const std::string& split) {
  return (split == "train" ? "training" : split) + " data";
}

// The number of tokens in a window: the requested length, or that of the source if it is smaller.
int64_t window_length(const LanguageModel& model, const TokenSource& source, int64_t wanted) {
  if (source.size() < 2) {
    fail_data(source.name(), " has ", source.size(), " token; at least 2 are needed for a window.");
  }
  const int64_t length = std::min(wanted > 0 ? wanted : model.config().block, model.max_context());
  return std::min(length, source.size() - 1);
}

// False when stopped.
bool add_influence(TextReport& report, LanguageModel& model, const LanguageTrace& inside,
                   const TextExplainOptions& options) {
  const auto& blocks = model.blocks();
  const auto tokens = static_cast<int64_t>(report.passage.ids.size());
  const EvaluationMode mode(model);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (options.stopped()) return false;
    const auto& x = inside.blocks[i].mixer_input[0];
    report.influence.push_back(
        token_influence(*blocks[i]->attn, x.narrow(0, 0, std::min(tokens, kInfluenceTokens))));
    options.note(int64_t(i) + 1, int64_t(blocks.size()), "layers read without each token");
  }
  if (tokens > kInfluenceTokens) {
    report.left_out.push_back(cat("Influence is measured among the first ", kInfluenceTokens,
                                  " tokens of the passage; its cost grows with their square."));
  }
  return true;
}

void add_weights(TextReport& report, const LanguageModel& model) {
  for (const auto& block : model.blocks()) {
    report.horizon.push_back(memory_horizon(*block->attn));
    const auto u = block->attn->subspaces();
    report.spectra.push_back(u.defined() ? std::optional(head_spectra(on_cpu(u.detach())))
                                         : std::nullopt);
  }
  report.parameters = parameter_count(model);
}

// False when stopped.
bool add_split(TextReport& report, LanguageModel& model, const std::string& name,
               const std::shared_ptr<const TokenSource>& source,
               const TextExplainOptions& options) {
  if (source == nullptr) return true;
  if (source->size() < 2) {
    report.left_out.push_back(
        cat("The ", data_of(name), " have fewer than 2 tokens and are left out."));
    return true;
  }
  TextStatisticsOptions wanted;
  const int64_t length = window_length(model, *source, 0);
  const int64_t usual = std::max<int64_t>(1, kReportTokens / length);
  wanted.windows.count = options.all_samples ? options.samples : std::min(options.samples, usual);
  wanted.bound = options.bound;
  wanted.stop = options.stop;
  wanted.progress = [&](int64_t done, int64_t total) {
    options.note(done, total, cat("windows of the ", data_of(name)));
  };
  report.splits.push_back({name, text_statistics(model, *source, wanted)});
  return !options.stopped();
}

// Adds a sentence for each part of the report that the model cannot have.
void add_missing(TextReport& report, const TextExplainOptions& options) {
  std::vector<std::string> without, uniform;
  for (size_t i = 0; i < report.trace.layers.size(); ++i) {
    const auto& layer = report.trace.layers[i];
    if (!layer.pi.defined()) without.push_back(cat(i + 1, " (", layer.mixer, ")"));
    if (layer.uniform) uniform.push_back(cat(i + 1));
  }
  if (!without.empty()) {
    report.left_out.push_back(cat("No memberships, spectra or rates of layers ",
                                  join(without, ", "), ": their mixers have no groups. Surprisal, ",
                                  "norms, own effect and influence are shown all the same."));
  }
  if (!uniform.empty()) {
    report.left_out.push_back(
        cat("Memberships of layers ", join(uniform, ", "), " are 1/H by construction."));
  }
  if (!options.no_data.empty()) report.left_out.push_back(options.no_data);
}

// Sums of one layer's numbers over windows.
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
  // Ranks the tokens whose mean of `sums` is above the mean of all tokens, highest first. Leaves
  // out rare tokens.
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

}  // namespace

std::optional<TextReport> explain_text(const LoadedLanguage& loaded, const Passage& passage,
                                       const TextExplainOptions& options) {
  if (options.samples < 1) {
    fail_usage("Statistics over ", options.samples, " windows are impossible; at least 1 is ",
               "needed.");
  }
  const auto& config = loaded.info.config;
  TextReport report;
  report.info = loaded.info;
  report.checkpoint = loaded.file.string();
  report.data = options.data;
  report.bound = options.bound;
  report.layers = options.layers.empty() ? spread_numbers(config.depth, kShownLayers)
                                         : choose_numbers(options.layers, config.depth, "layer");
  report.heads = choose_numbers(options.heads, config.heads, "head");
  report.passage = passage;
  LanguageModel& model = *loaded.model;
  const torch::NoGradGuard no_grad;
  LanguageTrace inside;
  report.trace = trace_text(model, torch::tensor(passage.ids, torch::kInt64).unsqueeze(0), &inside);
  add_weights(report, model);
  const bool whole = add_influence(report, model, inside, options) &&
                     add_split(report, model, "train", options.train, options) &&
                     add_split(report, model, options.held_split, options.held, options);
  if (!whole) return std::nullopt;
  add_missing(report, options);
  return report;
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
  for (const auto& block : model.blocks()) {
    rates.emplace_back(on_cpu(block->attn->subspaces()), /*full=*/true, options.bound);
  }
  double loss = 0, squares = 0;
  for (int64_t i = 0; i < options.windows.count; ++i) {
    if (i > 0 && options.stop != nullptr && options.stop->load()) break;
    const Tensor ids = window_ids(source, options.windows, result.length, i);
    LanguageTrace inside;
    const TextTrace trace = trace_text(model, ids, &inside);
    auto measured = layer_rates(model, inside.blocks, wanted_rates(/*full=*/true, options.bound));
    for (LayerRates& layer : measured) move_to_cpu(layer);
    for (BlockTrace& block : inside.blocks) move_to_cpu(block);
    for (size_t k = 0; k < rates.size(); ++k) {
      // Omits the exact rate in the whole space, whose cost grows with the cube of the width.
      inside.blocks[k].mixer_input = Tensor();
      rates[k].add(inside.blocks[k], measured[k]);
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
