// Scores a language model's predictions of tokens, and its loss on a stream of tokens by two named
// protocols.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tost/data/token_data.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// The options of all evaluations of language models.
struct LanguageEvalOptions {
  Precision precision = Precision::kFp32;  // or bf16
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;
};

struct TokenScores {
  torch::Tensor loss;    // -log p of the target in nats, float32
  torch::Tensor likely;  // bool: no token is likelier (the first of equals counts)
};

// Scores each target [B, T] int64 that is not -1, in row-major order, from hidden [B, T, C]
// (LanguageModel::hidden). Computes logits for a few thousand tokens at a time, and scores in
// float32.
TokenScores score_targets(const LanguageModel& model, const torch::Tensor& hidden,
                          const torch::Tensor& targets);

// A text whose last tokens are to be predicted from those before.
struct ScoredText {
  std::vector<int64_t> ids;
  int64_t targets = 0;  // the last of `ids` that are scored, 1 ... ids.size() - 1
};

// The scores of each text's targets, in order. Reads the texts together, padded on the right, which
// a causal model does not see. A text beyond the model's context loses its beginning. Throws a data
// Error if a text's targets alone do not fit, or if it has none.
std::vector<TokenScores> score_texts(LanguageModel& model, const std::vector<ScoredText>& texts);

// usual reads the whole text in windows of `context` tokens, one every `stride` tokens. Of each
// window only predictions count that no earlier window has made, so that every token but the first
// is predicted once, from `context - stride` tokens or more if the text has so many. official (the
// protocol of the paper's code): random crops of `context` tokens, the mean over `batches` batches
// of `batch`.
struct LanguageLossOptions : LanguageEvalOptions {
  std::string protocol = "usual";  // or official
  // The tokens of a window; 0: the block that the model was trained on. kWholeText (usual) predicts
  // every token from all before it, without windows, for models without a limit of context.
  int64_t context = 0;
  static constexpr int64_t kWholeText = -1;
  int64_t stride = 0;  // usual; 0: half the context
  // The windows that are read together; 0: 16 (official), or as many as have 8,192 tokens (usual).
  int64_t batch = 0;
  int64_t batches = 1000;  // official
  uint64_t seed = 1337;    // official
};

struct LanguageLoss {
  double loss = 0;  // mean, nats a token
  // The standard error of the mean over batches, for official with two batches or more.
  std::optional<double> standard_error;
  double perplexity = 0;                // exp(loss)
  std::optional<double> bits_per_byte;  // usual, where the text's bytes are known
  int64_t tokens = 0;                   // predicted
  int64_t context = 0;                  // as used; kWholeText
  double seconds = 0, tokens_per_s = 0;
};

// Computes the loss in evaluation mode without gradients, with sums in float64. `text_bytes` are
// those of the tokens' text, 0 if unknown. Returns nothing if `stop` ended it. Throws a usage Error
// for an impossible setting, a data Error for a source too short or with ids outside the model's
// vocabulary.
std::optional<LanguageLoss> language_loss(LanguageModel& model, const TokenSource& source,
                                          int64_t text_bytes,
                                          const LanguageLossOptions& options = {});

// Returns loss, standard_error, perplexity, bits_per_byte, tokens, context, seconds and
// tokens_per_s; unknown values are null.
nlohmann::json to_json(const LanguageLoss& result);

}  // namespace tost
