#include "tost/kinds/language/text_writer.h"

#include <algorithm>

namespace tost {

TextWriter::TextWriter(const Tokenizer& tokenizer, int64_t vocab, const GenerateConfig& config,
                       uint64_t stream, const TextSession& before)
    : tokenizer_(tokenizer),
      config_(config),
      sampler_(config.sampling, std::min(tokenizer.vocab_size(), vocab), tokenizer.unknown()),
      random_(config.seed, stream, before.draws),
      stream_(config.stop, before.held) {
  note(before.seen);
}

int64_t TextWriter::draw(const float* logits) {
  last_ = sampler_.draw(logits, random_);
  sampler_.note(last_);
  ++drawn_;
  return last_;
}

std::string TextWriter::text() {
  if (last_ == tokenizer_.end_of_text() && !config_.ignore_end) {
    ended_ = "end";
    return {};
  }
  auto certain = stream_.push(tokenizer_.piece(int32_t(last_)));
  if (stream_.stopped()) {
    ended_ = "stop";
  } else if (drawn_ >= config_.max_tokens) {
    ended_ = "length";
  }
  return certain;
}

std::string TextWriter::finish(TextSession* after) {
  if (after == nullptr) return stream_.finish();
  auto rest = stream_.pause();
  after->held = stream_.held();
  after->seen.clear();
  const auto& seen = sampler_.seen();
  for (size_t id = 0; id < seen.size(); ++id) {
    if (seen[id]) after->seen.push_back(int64_t(id));
  }
  ++after->draws;
  return rest;
}

}  // namespace tost
