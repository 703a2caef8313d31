// Everything a report on a language model says, as numbers. The page (explain_page.h) and the JSON
// (explain_json.h) are made from this alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/explain/head_spectra.h"
#include "tost/kinds/language/explain_statistics.h"
#include "tost/kinds/language/explain_tokens.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {

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
  std::vector<torch::Tensor> influence;             // by layer [T', T'], see explain_influence.h
  std::vector<torch::Tensor> horizon;               // by layer [H]; undefined without forgetting
  std::vector<std::optional<HeadSpectra>> spectra;  // by layer; none without subspaces
  std::vector<ExplainedText> splits;  // training data first; tables of tokens are of the last
  bool bound = false;
  std::vector<std::string> left_out;  // sentences: what could not be shown, and why
};

struct TextExplainOptions {
  std::vector<int64_t> layers, heads;  // from 1; empty: first, middle, last; all
  int64_t samples = 256;               // windows of each split, at most 65,536 tokens in all ...
  bool all_samples = false;            // ... unless this is set
  bool bound = false;
  std::shared_ptr<const TokenSource> train, held;  // either may be missing
  std::string held_split;                          // its name: "validation", "test"
  std::string data;                                // what to call the data
  std::string no_data;  // why there is none and how to get it; "" where there is
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total, const std::string& what)> progress;
};

// Tokens whose influence on later ones is measured: the first of the passage.
inline constexpr int64_t kInfluenceTokens = 200;

// A split in a sentence: "training data", "validation data".
std::string data_of(const std::string& split);

// Nothing when `stop` ended it. Deterministic. Usage Errors for a layer or head that does not
// exist and for samples below 1; data Errors for data that does not fit the model.
std::optional<TextReport> explain_text(const LoadedLanguage& loaded, const Passage& passage,
                                       const TextExplainOptions& options);

}  // namespace tost
