// All numbers of a report on a language model. The JSON of a report contains these numbers, and the
// page shows the JSON.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/explain/layer_sums.h"
#include "tost/explain/measures.h"
#include "tost/explain/report.h"
#include "tost/io/token_data.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {

// The windows of a text over which effects of layers are averaged, by token and by position.
struct TextWindows {
  int64_t count = 16;
  int64_t length = 0;  // tokens; 0: the model's block, or less where the text is shorter
  uint64_t seed = 1;   // of the places, equally likely ones (crop_batch)
};

// A token and its mean over all its occurrences in the windows.
struct TokenMean {
  int64_t id = 0;
  int64_t count = 0;   // occurrences
  double mean = 0;     // of the quantity (membership, direct effect)
  double against = 0;  // mean divided by the mean over all tokens: the lift
};

struct TextLayerStatistics {
  torch::Tensor share;           // mean membership of each head over all tokens [H]
  torch::Tensor entropy;         // mean by position [T]
  torch::Tensor entropy_spread;  // standard deviation over windows by position [T]
  double entropy_mean = 0;       // over all
  double effect_mean = 0;        // direct effect over all tokens
  torch::Tensor gate;            // mean output gate of each head [H]; undefined without
  // The tokens whose mean is above the mean over all tokens, in falling order.
  std::vector<std::vector<TokenMean>> taken;  // by head: of the highest lift
  std::vector<TokenMean> strongest;           // of the highest direct effect
  bool has_memberships = false;
};

struct TextStatistics {
  int64_t windows = 0, length = 0;
  int64_t least = 0;                 // occurrences a token needs to be listed
  double loss = 0, loss_spread = 0;  // mean over windows and its deviation, nats a token
  std::vector<TextLayerStatistics> layers;
  std::vector<LayerStatistics> rates;  // by layer, without exact_space
};

struct TextStatisticsOptions {
  TextWindows windows;
  int64_t least = 5;   // occurrences a token needs to be listed
  int64_t most = 10;   // tokens listed
  bool bound = false;  // the exact coding rates too
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;
};

// The ids [1, length] of the next window.
torch::Tensor window_ids(const TokenSource& source, const TextWindows& windows, int64_t length,
                         int64_t index);

// Averages over the windows; if `stop` is set, over the windows read so far. Throws a data Error
// for a source of fewer than 2 tokens, and a usage Error for no windows.
TextStatistics text_statistics(LanguageModel& model, const TokenSource& source,
                               const TextStatisticsOptions& options);

struct ExplainedText {
  std::string split;  // "train", "validation", "test"
  TextStatistics statistics;
};

struct TextReport {
  LanguageInfo info;
  std::string checkpoint;
  std::string data;  // "" none
  int64_t parameters = 0;
  std::vector<int64_t> layers, heads;  // those chosen, from 1
  Passage passage;
  TextTrace trace;                                  // of the passage, a batch of one
  std::vector<torch::Tensor> influence;             // by layer [T', T'], see explain_trace.h
  std::vector<torch::Tensor> horizon;               // by layer [H]; undefined without forgetting
  std::vector<std::optional<HeadSpectra>> spectra;  // by layer; none without subspaces
  std::vector<ExplainedText> splits;  // training data first; tables of tokens are of the last
  bool bound = false;
  std::vector<std::string> left_out;  // sentences: what could not be shown, and why
};

struct TextExplainOptions : DataReportOptions<TokenSource> {
  bool all_samples = false;  // windows of more than 65,536 tokens in all
};

// Makes the report; returns nothing if `stop` ended it. Throws usage Errors for a layer or head
// that does not exist and for samples below 1, and data Errors for data that do not fit the model.
std::optional<TextReport> explain_text(const LoadedLanguage& loaded, const Passage& passage,
                                       const TextExplainOptions& options);

// A report on a language model as JSON: every number of its page (docs/explain.md). Layers, heads
// and places in the passage are counted from 1. Numbers that are not finite are null. Correlation
// matrices are those of the chosen layers and heads.
nlohmann::json to_json(const TextReport& report);

}  // namespace tost
