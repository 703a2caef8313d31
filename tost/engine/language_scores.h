// Scores a language model's predictions of tokens, and the loss on a stream of tokens by two
// protocols.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tost/engine/generate.h"
#include "tost/io/token_data.h"

namespace tost {

// The options of all evaluations of language models.
struct LanguageEvalOptions {
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;

  bool stopped() const { return stop != nullptr && stop->load(); }
};

// A text whose last tokens are to be predicted from the earlier ones.
struct ScoredText {
  std::vector<int64_t> ids;
  int64_t targets = 0;  // the last of `ids` that are scored, 1 ... ids.size() - 1
};

// The scores of each text's targets, in order. Reads the texts together, padded on the right, where
// padding has no effect in a causal model. A text beyond the model's context loses its beginning.
// Throws a data Error for a text without targets, or whose targets do not fit the context.
std::vector<TokenScores> score_texts(TextModel& model, const std::vector<ScoredText>& texts);

// `usual` reads the whole text in windows of `context` tokens, one every `stride` tokens. A window
// scores only tokens that no earlier window has scored, so that every token but the first is
// predicted once, from at least `context - stride` tokens if there are as many. `official` is the
// protocol of the paper's code: the mean over `batches` batches of `batch` random crops of
// `context` tokens.
struct LanguageLossOptions : LanguageEvalOptions {
  std::string protocol = "usual";  // or official
  // The tokens of a window; 0: the model's block. kWholeText (usual) predicts every token from all
  // earlier ones, without windows, for models without a context limit.
  int64_t context = 0;
  static constexpr int64_t kWholeText = -1;
  int64_t stride = 0;  // usual; 0: half the context
  // The number of windows that are read together. 0 means 16 (official), or windows of 8,192 tokens
  // in all (usual).
  int64_t batch = 0;
  int64_t batches = 1000;  // official
  uint64_t seed = 1337;    // official
};

struct LanguageLoss {
  double loss = 0;  // mean, nats a token
  // The standard error of the mean over batches, for the official protocol.
  std::optional<double> standard_error;
  double perplexity = 0;                // exp(loss)
  std::optional<double> bits_per_byte;  // usual, where the text's bytes are known
  int64_t tokens = 0;                   // predicted
  int64_t context = 0;                  // as used; kWholeText
  double seconds = 0, tokens_per_s = 0;
};

// Computes the loss with sums in float64. `text_bytes` is the
// size of the text in bytes, 0 if unknown. Returns nothing if `stop` ended it. Throws a usage Error
// for an impossible setting, and a data Error for a source that is too short or has ids outside the
// model's vocabulary.
std::optional<LanguageLoss> language_loss(TextModel& model, const TokenSource& source,
                                          int64_t text_bytes,
                                          const LanguageLossOptions& options = {});

// Returns loss, standard_error, perplexity, bits_per_byte, tokens, context, seconds and
// tokens_per_s; unknown values are null.
nlohmann::json to_json(const LanguageLoss& result);

}  // namespace tost
