// Writes text with a causal language model, token by token; all memory is in the model's state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/base/random.h"
#include "tost/kinds/language/file.h"

namespace tost {

// Choosing the next token from logits.

struct SamplingConfig {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // only the fewest whose probabilities reach p
  double min_p = 0;        // only those at least this share of the most likely one's probability
  double repetition_penalty =
      1;  // logits of tokens seen before: divided if positive, else multiplied
};

// Throws a usage Error naming the setting: temperature negative or not finite, top_p outside (0,
// 1], min_p outside [0, 1], top_k negative, repetition_penalty outside [0.01, 100].
void check_sampling(const SamplingConfig& config);

// Draws tokens. The same logits, settings and state of the generator give the same token on every
// machine.
class Sampler {
 public:
  // Never draws tokens from `allowed` on (rows that pad a vocabulary) and `unknown` (-1: none).
  Sampler(const SamplingConfig& config, int64_t allowed, int64_t unknown = -1);

  // Applies the repetition penalty to `id` from now on.
  void note(int64_t id);
  const std::vector<char>& seen() const { return seen_; }

  // Draws from at least `allowed` logits, in the order penalty, temperature, top-k, top-p, min-p;
  // ties go to the smaller id. Throws a data Error if no logit is finite.
  int64_t draw(const float* logits, Random& random);

 private:
  SamplingConfig config_;
  int64_t unknown_;
  std::vector<char> seen_;  // by id
  struct Candidate {
    float logit;
    int32_t id;
  };
  std::vector<Candidate> candidates_;
};

struct GenerateConfig {
  SamplingConfig sampling;
  int64_t max_tokens = 256;       // new ones; 0: only the prompt is read
  std::vector<std::string> stop;  // strings that end a text; not part of it
  bool ignore_end = false;        // continue past an end-of-text token
  // What happens past the block of a model with learned positions: "stop" refuses such a text
  // beforehand, "slide" reads the last half block again and continues.
  std::string past_block = "stop";
  uint64_t seed = 0;
};

// Throws a usage Error naming the setting.
void check_generate(const GenerateConfig& config);

// What is needed to continue a text: the state, the tokens that the model has not read yet, and
// those that settings refer to.
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

// Called with every piece of text once it is final; returning false ends all texts.
using OnText = std::function<bool(int64_t text, const std::string& piece)>;

// Continues prompts [ids]; those with the same number of tokens are written together. Text r draws
// from Random(seed, r, session draws), independent of the other texts. Prompts are freed once read.
// With `session` there is one prompt, read after the tokens of the session, which then continues
// from there; it may be empty if the session has unread tokens. `stop` ends all texts after the
// present token, or after the present 512 tokens of a prompt. Throws usage Errors for settings and
// for texts that would not fit the block, data Errors for prompts the model cannot read; the
// session is then as before.
GenerateResult generate(LanguageModel& model, const Tokenizer& tokenizer,
                        std::vector<std::vector<int64_t>> prompts, const GenerateConfig& config,
                        TextSession* session = nullptr, const OnText& on_text = {},
                        const std::atomic<bool>* stop = nullptr);

}  // namespace tost
