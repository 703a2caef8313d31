// Text from a causal language model, token by token, with a memory that is the model's state.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/base/random.h"
#include "tost/engine/language_config.h"
#include "tost/engine/language_state.h"
#include "tost/io/tokenizer.h"

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

// Draws tokens. Deterministic: the same logits, settings and generator state give the same token on
// every machine that computes the same logits.
class Sampler {
 public:
  // Tokens from `allowed` on (rows that pad a vocabulary) and `unknown` (-1: none) are never drawn.
  Sampler(const SamplingConfig& config, int64_t allowed, int64_t unknown = -1);

  // The penalty is meant for `id` from now on.
  void note(int64_t id);
  const std::vector<char>& seen() const { return seen_; }

  // logits: at least `allowed` floats. Throws a data Error when none of them is finite. Filters in
  // the order penalty, temperature, top-k, top-p, min-p; ties go to the smaller id.
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
  // Past the block of a model with learned positions: "stop" refuses beforehand, "slide" reads the
  // last half block again and continues from there.
  std::string past_block = "stop";
  uint64_t seed = 0;
};

// Throws a usage Error naming the setting.
void check_generate(const GenerateConfig& config);

// A language model that reads texts on.
class TextModel {
 public:
  virtual ~TextModel() = default;
  virtual const LanguageConfig& config() const = 0;
  // Reads ids [batch, tokens], at least one a text, after `state`: logits of the tokens after the
  // last [batch, vocab] float32. Throws data Errors for ids that it cannot read.
  virtual Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) = 0;
  // By their names in files, as floating-point numbers.
  virtual Arrays weights() const = 0;
  // Its state where arrays can be read; elsewhere than on a GPU it is there.
  virtual LanguageState on_cpu(LanguageState state) const { return state; }
};

// Everything needed to continue a text: the state, the tokens that the model has not read yet, and
// those that the settings refer to.
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

// Called with every piece of certain text as it comes; false ends all texts.
using OnText = std::function<bool(int64_t text, const std::string& piece)>;

// Continues prompts [ids]; those with the same number of tokens are written together. Text r draws
// from Random(seed, r, session draws), independent of the other texts. Prompts are freed once read.
// With `session` there is one prompt, which may be empty where the session has something pending;
// it is read after the tokens of the session, which then continues from there. `stop` ends all
// texts after the present token, or after the present 512 tokens of a prompt. Throws usage Errors
// for settings and for texts that would not fit the block, data Errors for prompts the model cannot
// read; the session is then as before.
GenerateResult generate(TextModel& model, const Tokenizer& tokenizer,
                        std::vector<std::vector<int64_t>> prompts, const GenerateConfig& config,
                        TextSession* session = nullptr, const OnText& on_text = {},
                        const std::atomic<bool>* stop = nullptr);

}  // namespace tost
