// Writes text with a causal language model, token by token, from the model's state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/base/random.h"
#include "tost/engine/language_config.h"
#include "tost/engine/language_state.h"
#include "tost/io/tokenizer.h"

namespace tost {

// Settings that select the next token from logits.

struct SamplingConfig {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // only the fewest whose probabilities reach p
  double min_p = 0;        // only those at least this share of the most likely one's probability
  double repetition_penalty =
      1;  // logits of tokens seen before: divided if positive, else multiplied
};

// Throws a usage Error naming the setting for a temperature that is negative or not finite, top_p
// outside (0, 1], min_p outside [0, 1], negative top_k, or repetition_penalty outside [0.01, 100].
void check_sampling(const SamplingConfig& config);

// Draws tokens deterministically: the same logits, settings and generator state give
// the same token on every machine.
class Sampler {
 public:
  // Never draws the token `unknown` (-1: none), or ids from `allowed` on, which pad a vocabulary.
  Sampler(const SamplingConfig& config, int64_t allowed, int64_t unknown = -1);

  // Applies the repetition penalty to `id` from now on.
  void note(int64_t id);
  const std::vector<char>& seen() const { return seen_; }

  // Draws from at least `allowed` logits. Throws a data Error if no logit is finite. Applies
  // penalty, temperature, top-k, top-p and min-p in this order; ties select the smaller id.
  int64_t draw(const float* logits, Random& random);

 private:
  void keep_best(size_t count);
  void keep_part(double part);

  SamplingConfig config_;
  int64_t unknown_;
  std::vector<char> seen_;       // by id
  std::vector<float> scores_;    // -infinity: not to be drawn
  std::vector<double> weights_;  // of the scores; the largest is 1
  std::vector<int32_t> ids_;     // of the scores; empty: by id
};

// The logarithm of the sum of exponentials. The sum has the same bits on every machine.
double log_total(const float* logits, int64_t count);

struct GenerateConfig {
  SamplingConfig sampling;
  int64_t max_tokens = 256;       // new ones; 0: only the prompt is read
  std::vector<std::string> stop;  // strings that end a text; not part of it
  bool ignore_end = false;        // continue past an end-of-text token
  // The action at the end of the block of a model with learned positions: "stop" refuses a long
  // text before the start, "slide" reads the last half block again and continues.
  std::string past_block = "stop";
  uint64_t seed = 0;
};

// Throws a usage Error naming an impossible setting.
void check_generate(const GenerateConfig& config);

struct TokenScores {
  std::vector<float> loss;   // -log p of the target in nats
  std::vector<char> likely;  // whether no token is likelier (the first of equals counts)
};

// A language model that continues texts from a state.
class TextModel {
 public:
  virtual ~TextModel() = default;
  virtual const LanguageConfig& config() const = 0;
  // Reads ids [batch, tokens], tokens >= 1, after `state`; returns the logits [batch, vocab]
  // float32 after the last token. Throws data Errors for ids that the model cannot read.
  virtual Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) = 0;
  // Reads ids [batch, tokens] after `state` (null: from the beginning), and scores each target
  // [batch, tokens] that is not -1, in row-major order. Throws as extend().
  virtual TokenScores score(const int64_t* ids, const int64_t* targets, int64_t batch,
                            int64_t tokens, LanguageState* state) = 0;
  // Its weights one by one, in the order of their names in files, as floating-point numbers. May
  // run while another thread reads.
  virtual void each_weight(function_ref<void(const Array& weight)> visit) const = 0;
  // Its state where arrays can be read; elsewhere than on a GPU it is there.
  virtual LanguageState on_cpu(LanguageState state) const { return state; }
};

// The data that continue a text: the state, unread tokens, and earlier tokens that settings need.
struct TextSession {
  LanguageState state;
  std::vector<int64_t> pending;  // not yet read: the last one drawn, or the rest of a prompt
  std::vector<int64_t> history;  // the last tokens, up to the block; only for learned positions
  std::vector<int64_t> seen;     // distinct tokens so far, ascending, for the repetition penalty
  std::string held;              // the beginning of a character, not yet given out
  uint64_t draws = 0;            // numbers the continuations, so that each draws new numbers
};

struct GeneratedText {
  std::string text;          // valid UTF-8
  std::vector<int64_t> ids;  // the drawn tokens, an end-of-text token included
  std::string ended;         // length, end, stop, interrupted
};

struct GenerateStats {
  int64_t prompt_tokens = 0, new_tokens = 0;  // over all texts
  int64_t decode_steps = 0;                   // tokens of one text
  double prefill_s = 0, decode_s = 0;
  int64_t state_bytes = 0;  // of the largest group of texts, after its last token
};

struct GenerateResult {
  std::vector<GeneratedText> texts;  // one a prompt, in their order
  GenerateStats stats;
};

// Called for every piece of final text; the result false ends all texts.
using OnText = std::function<bool(int64_t text, const std::string& piece)>;

// Continues prompts; prompts with the same number of tokens are continued together. Each text draws
// from a separate random stream of the seed. Frees prompts after reading them. With `session` there
// is one prompt, which may be empty if the session has pending tokens. The prompt follows the
// session's tokens, and the session is updated. `stop` ends all texts after the current token, or
// the current 512 tokens of a prompt. Throws usage Errors for settings and for texts that do not
// fit the block, and data Errors for prompts that the model cannot read; the session then does not
// change.
GenerateResult generate(TextModel& model, const Tokenizer& tokenizer,
                        std::vector<std::vector<int64_t>> prompts, const GenerateConfig& config,
                        TextSession* session = nullptr, const OnText& on_text = {},
                        const std::atomic<bool>* stop = nullptr);

}  // namespace tost
