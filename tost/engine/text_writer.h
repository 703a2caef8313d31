// Texts that are being written, token by token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tost/engine/generate.h"

namespace tost {

// Text that arrives token by token and is returned as soon as it is final. Partial characters and
// partial stop strings are held back until they are complete. Bytes that can never become valid
// UTF-8 are replaced by U+FFFD.
class TextStream {
 public:
  // `held` are the bytes that pause() of an earlier stream returned.
  explicit TextStream(std::vector<std::string> stop_strings = {}, std::string held = {});

  // Adds bytes; returns text that is now final: valid UTF-8 before any stop string.
  std::string push(std::string_view bytes);
  bool stopped() const { return stopped_; }  // a stop string came

  // Returns the bytes held back, except the beginning of a character, which held() returns.
  std::string pause();
  const std::string& held() const { return held_; }

  // Ends the text, and returns its last bytes.
  std::string finish();

 private:
  std::string take(size_t count);

  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

// Copies the whole characters at the start of `text` to `out`, with every invalid byte replaced by
// U+FFFD, and returns the number of copied bytes. With `final`, copies an incomplete character at
// the end, too.
size_t whole_characters(std::string_view text, bool final, std::string& out);

// Writes one text, with a sampler, random numbers, and conditions for the end.
class TextWriter {
 public:
  // Continues the session `before`, which may be new. A text with the index `stream` draws from
  // Random(config.seed, stream, the session's draws). The tokenizer must outlive the writer; tokens
  // from `vocab` on are never drawn.
  TextWriter(const Tokenizer& tokenizer, int64_t vocab, const GenerateConfig& config,
             uint64_t stream, const TextSession& before);

  // Applies the repetition penalty to the tokens `ids`.
  template <class Ids>
  void note(const Ids& ids) {
    for (const int64_t id : ids) sampler_.note(id);
  }

  // Draws the next token from `vocab` logits. Throws as Sampler::draw(). Changes only the writer.
  int64_t draw(const float* logits);
  // Returns the text that the drawn token makes final; the drawn token may end the text.
  std::string text();

  int64_t drawn() const { return drawn_; }
  const std::string& ended() const { return ended_; }  // length, end or stop; empty: not yet

  // Returns the last bytes of the text. Stores an incomplete character, and all distinct tokens, in
  // the session `after`, unless it is null.
  std::string finish(TextSession* after);

 private:
  const Tokenizer& tokenizer_;
  GenerateConfig config_;
  Sampler sampler_;
  Random random_;
  TextStream stream_;
  int64_t last_ = -1, drawn_ = 0;
  std::string ended_;
};

}  // namespace tost
