// One text being written: its sampler, its random numbers, and where it ends.
#pragma once

#include <string>

#include "tost/kinds/language/generate.h"
#include "tost/kinds/language/text_stream.h"

namespace tost {

class TextWriter {
 public:
  // Continues `before`, which may be new. Text `stream` draws from Random(config.seed, stream, the
  // session's draws). The tokenizer outlives the writer; tokens from `vocab` on are never drawn.
  TextWriter(const Tokenizer& tokenizer, int64_t vocab, const GenerateConfig& config,
             uint64_t stream, const TextSession& before);

  // The repetition penalty is meant for these.
  template <class Ids>
  void note(const Ids& ids) {
    for (const int64_t id : ids) sampler_.note(id);
  }

  // The next token, from `vocab` logits. Throws as Sampler::draw(). Touches nothing but the writer.
  int64_t draw(const float* logits);
  // The text that the token just drawn makes certain; the text may have ended with it.
  std::string text();

  int64_t drawn() const { return drawn_; }
  const std::string& ended() const { return ended_; }  // length, end or stop; empty: not yet

  // What was held back. With `after` the beginning of a character stays back: the session keeps it,
  // and the distinct tokens so far.
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
