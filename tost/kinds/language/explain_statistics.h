// What the layers of a language model do on average: over windows of a text, by token and by
// position.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "tost/data/token_data.h"
#include "tost/explain/layer_sums.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {

struct TextWindows {
  int64_t count = 16;
  int64_t length = 0;  // tokens; 0: the model's block, or less where the text is shorter
  uint64_t seed = 1;   // of the places, equally likely ones (crop_batch)
};

// A token and its mean over all its occurrences in the windows.
struct TokenMean {
  int64_t id = 0;
  int64_t count = 0;   // occurrences
  double mean = 0;     // of the quantity (membership, own effect)
  double against = 0;  // mean divided by the mean over all tokens: the lift
};

struct TextLayerStatistics {
  torch::Tensor share;           // mean membership of each head over all tokens [H]
  torch::Tensor entropy;         // mean by position [T]
  torch::Tensor entropy_spread;  // standard deviation over windows by position [T]
  double entropy_mean = 0;       // over all
  double effect_mean = 0;        // own effect over all tokens
  torch::Tensor gate;            // mean output gate of each head [H]; undefined without
  // Tokens above the mean of all, falling.
  std::vector<std::vector<TokenMean>> taken;  // by head: of the highest lift
  std::vector<TokenMean> strongest;           // of the highest own effect
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

// Tokens in a window that a source can give: the length wanted, or what there is.
int64_t window_length(const LanguageModel& model, const TokenSource& source, int64_t wanted);

// The windows one after the other; ids [1, length].
torch::Tensor window_ids(const TokenSource& source, const TextWindows& windows, int64_t length,
                         int64_t index);

// Deterministic. Ends early, with the windows read so far, when `stop` is set. Throws a data Error
// for a source of fewer than 2 tokens, a usage Error for no windows.
TextStatistics text_statistics(LanguageModel& model, const TokenSource& source,
                               const TextStatisticsOptions& options);

}  // namespace tost
