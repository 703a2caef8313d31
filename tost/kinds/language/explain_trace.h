// Measures the effects of a language model's layers on each token and head.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "tost/io/token_data.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/causal_mixer.h"
#include "tost/torch.h"

namespace tost {

// The trace of a layer in float64, with the batch first. Tensors that a mixer does not have are
// undefined.
struct TextLayer {
  std::string mixer;      // its name
  bool uniform = false;   // memberships are 1/H by construction
  bool descends = false;  // see descends_on_bound()
  torch::Tensor pi;       // memberships [B, H, T], sum to 1 over heads
  torch::Tensor entropy;  // of pi over heads, divided by log H (one head: 0): 0 sure, 1 undecided;
                          // [B, T]
  torch::Tensor gate;     // mean over a head's features of the output gate [B, H, T]
  // For mixers with group means: the norm [B, H, T] of a head's mean after each token, and the
  // cosine of the mean with the token's values.
  torch::Tensor mean_norm, mean_cosine;
  torch::Tensor effect;  // |gamma1 mixer(norm x)| / |x|, x the residual stream before [B, T]
  torch::Tensor norm;    // of the residual stream after the block [B, T]
};

struct TextTrace {
  torch::Tensor loss;    // -log p in nats of each token but the first given those before [B, T - 1]
  torch::Tensor likely;  // bool: no token was likelier [B, T - 1]
  torch::Tensor guess;   // the most likely token at this position [B, T - 1] int64
  std::vector<TextLayer> layers;
};

// Runs the model on ids [B, T] in evaluation mode, without gradients; `inside`, unless null, gets
// the traces of blocks. Throws as LanguageModel::hidden().
TextTrace trace_text(LanguageModel& model, const torch::Tensor& ids,
                     LanguageTrace* inside = nullptr);

// Whether block `index` adds a step of the form of R_var's gradient (arXiv 2412.17810, Eq. 28):
// true only for TSSA without convolution, first moments and gate.
bool descends_on_bound(const LanguageConfig& config, int64_t index);

// The horizon of each head's running sums in tokens [H], 1 / (1 - gamma); undefined for a mixer
// that forgets nothing or has no sums.
torch::Tensor memory_horizon(const TokenMixer& mixer);

// Measures the influence of each token of x [T, C], the input of a mixer, on the output at later
// tokens. Entry [j, t], t > j, of the result [T, T] float64 is |mixer(x)_t - mixer(x without token
// j)_t| / |mixer(x)_t|, computed exactly, by running the later tokens from the state before token
// j. Other entries, and those with output 0, are 0. Takes T runs of T/2 tokens.
torch::Tensor token_influence(TokenMixer& mixer, const torch::Tensor& x);

// Influence by distance: the mean of the entries [j, j + d] over j, for d from 1 to T - 1.
torch::Tensor influence_by_distance(const torch::Tensor& influence);

// The influence of token j on later tokens: the mean of the entries [j, j + 1 ... j + reach], or
// NaN if fewer than `reach` tokens follow.
torch::Tensor influence_of_tokens(const torch::Tensor& influence, int64_t reach);

// The reach for `tokens` tokens: 32, but at most half of the tokens and at least 1.
int64_t influence_reach(int64_t tokens);

// Shows the bytes of a token as visible UTF-8: spaces as "·", line feeds as "↵", tabs as "⇥",
// returns as "␍", incomplete characters as "‹E2›", control characters as "‹01›", and no bytes as
// "∅". Long tokens are truncated to `most` characters and an ellipsis.
std::string visible_piece(std::string_view bytes, int64_t most = 40);

// The text of a token, or the id as "#17" if no tokenizer has this id.
std::string visible_token(const Tokenizer* tokenizer, int64_t id);

struct Passage {
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;  // ids as visible_token has them
  std::string source;               // its origin, for readers
  std::vector<std::string> notes;   // omissions and their reasons, one sentence each
};

// Encodes the first 256 KiB of `text`, at most `max_tokens` tokens and the model's block. `more`
// says that the text is longer. Throws a usage Error for an empty text, and a data Error naming
// `source` for a model without tokenizer or text that it cannot encode.
Passage passage_of_text(const LanguageInfo& info, std::string_view text, const std::string& source,
                        int64_t max_tokens, bool more = false);

// Reads at most 256 KiB from the beginning of a text file, or tokens of a token file (.bin).
Passage passage_of_file(const LanguageInfo& info, const std::string& path, int64_t max_tokens);

// Reads the beginning of a stream of text; `source` names it.
Passage passage_of_stream(const LanguageInfo& info, std::istream& in, const std::string& source,
                          int64_t max_tokens);

// Takes the first tokens of a source. Throws a data Error for ids outside the model's vocabulary.
Passage passage_of_tokens(const LanguageInfo& info, const TokenSource& tokens,
                          const std::string& source, int64_t max_tokens);

}  // namespace tost
