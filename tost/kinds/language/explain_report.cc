#include "tost/kinds/language/explain_report.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/selection.h"
#include "tost/explain/trace_on_cpu.h"
#include "tost/kinds/language/explain_influence.h"
#include "tost/nn/evaluation_mode.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

constexpr int64_t kReportTokens = 65'536;  // of all windows of a split
constexpr int64_t kShownLayers = 4;

bool stopped(const TextExplainOptions& options) {
  return options.stop != nullptr && options.stop->load();
}

void tell(const TextExplainOptions& options, int64_t done, int64_t total, const std::string& what) {
  if (options.progress) options.progress(done, total, what);
}

// False when stopped.
bool add_influence(TextReport& report, LanguageModel& model, const LanguageTrace& inside,
                   const TextExplainOptions& options) {
  const auto blocks = blocks_of(model);
  const auto tokens = static_cast<int64_t>(report.passage.ids.size());
  const EvaluationMode mode(model);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (stopped(options)) return false;
    const auto& x = inside.blocks[i].mixer_input[0];
    report.influence.push_back(
        token_influence(*blocks[i]->attn, x.narrow(0, 0, std::min(tokens, kInfluenceTokens))));
    tell(options, int64_t(i) + 1, int64_t(blocks.size()), "layers read without each token");
  }
  if (tokens > kInfluenceTokens) {
    report.left_out.push_back(cat("Influence is measured among the first ", kInfluenceTokens,
                                  " tokens of the passage; its cost grows with their square."));
  }
  return true;
}

void add_weights(TextReport& report, const LanguageModel& model) {
  for (const auto& block : blocks_of(model)) {
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
    tell(options, done, total, cat("windows of the ", data_of(name)));
  };
  report.splits.push_back({name, text_statistics(model, *source, wanted)});
  return !stopped(options);
}

// Sentences about what this model does not have.
void add_missing(TextReport& report, const TextExplainOptions& options) {
  std::vector<std::string> without, uniform;
  for (size_t i = 0; i < report.trace.layers.size(); ++i) {
    const auto& layer = report.trace.layers[i];
    if (!layer.pi.defined()) without.push_back(cat(i + 1, " (", layer.mixer, ")"));
    if (layer.uniform) uniform.push_back(cat(i + 1));
  }
  if (!without.empty()) {
    report.left_out.push_back(cat("No memberships, spectra or rates of layers ",
                                  join(without, ", "), ": their mixers have no groups. Surprise, ",
                                  "norms, own effect and influence are shown all the same."));
  }
  if (!uniform.empty()) {
    report.left_out.push_back(
        cat("Memberships of layers ", join(uniform, ", "), " are 1/H by construction."));
  }
  if (!options.no_data.empty()) report.left_out.push_back(options.no_data);
}

}  // namespace

std::string data_of(const std::string& split) {
  return (split == "train" ? "training" : split) + " data";
}

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

}  // namespace tost
