#include "tost/engine/text_writer.h"

#include <algorithm>
#include <utility>

#include "tost/base/utf8.h"

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

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Whether `rest` is the beginning of a character.
bool is_beginning(std::string_view rest) {
  if (rest.empty() || rest.size() > 3) return false;
  // Tries a second byte from every range that a first byte may require.
  for (const char* end : {"\x80\x80\x80", "\xA0\x80\x80"}) {
    if (utf8_length(std::string(rest) + end, 0) > rest.size()) return true;
  }
  return false;
}

}  // namespace

size_t whole_characters(std::string_view text, bool final, std::string& out) {
  out.clear();
  size_t done = 0;
  while (done < text.size()) {
    const size_t length = utf8_length(text, done);
    if (length == 0 && !final && is_beginning(text.substr(done))) break;
    out.append(length > 0 ? text.substr(done, length) : kReplacement);
    done += std::max<size_t>(length, 1);
  }
  return done;
}

TextStream::TextStream(std::vector<std::string> stop_strings, std::string held)
    : stop_(std::move(stop_strings)), held_(std::move(held)) {
  stop_.erase(std::remove(stop_.begin(), stop_.end(), std::string()), stop_.end());
}

std::string TextStream::take(size_t count) {
  std::string text;
  held_.erase(0, whole_characters(std::string_view(held_).substr(0, count), stopped_, text));
  return text;
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  held_.append(bytes);
  size_t first = std::string::npos;
  for (const auto& stop : stop_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string text = take(first);
    held_.clear();
    return text;
  }
  // Finds the longest end of the text that could still become a stop string.
  size_t waiting = 0;
  for (const auto& stop : stop_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > waiting; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) waiting = n;
    }
  }
  return take(held_.size() - waiting);
}

std::string TextStream::pause() {
  return take(held_.size());
}

std::string TextStream::finish() {
  std::string text;
  whole_characters(held_, /*final=*/true, text);
  held_.clear();
  return text;
}

}  // namespace tost
