#include "tost/io/token_data.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/io/text_layout.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

constexpr int64_t kGpt2Vocab = 50'257;

void put(const std::string& name, TextSplit split, TextData& data) {
  if (name == "train") data.train = std::move(split.tokens);
  if (name == "validation") {
    data.validation = std::move(split.tokens);
    data.validation_bytes = split.bytes;
  }
  if (name == "test") {
    data.test = std::move(split.tokens);
    data.test_bytes = split.bytes;
  }
}

TextSplit encode_part(const TextPart& part, const std::string& split, const Tokenizer& tokenizer) {
  const std::string name = cat("'", part.file.string(), "' (", split, ")");
  const TextFile file(part);
  const std::vector<int32_t> ids = tokenizer.encode(file.text(), name);
  if (ids.empty()) return {};
  return {std::make_shared<TokenSource>(ids, name), static_cast<int64_t>(file.text().size())};
}

TextData open_texts(const TextSpec& spec, const TextLayout& layout,
                    std::shared_ptr<const Tokenizer> known) {
  TextData data;
  data.tokenizer = known ? std::move(known) : make_text_tokenizer(spec.tokenizer, layout);
  data.vocab_size = data.tokenizer->vocab_size();
  for (const auto& [split, part] : layout.parts) {
    put(split, encode_part(part, split, *data.tokenizer), data);
  }
  if (!data.train && !data.validation && !data.test) {
    fail_data("'", layout.path, "' holds no text: its files are empty.");
  }
  return data;
}

// The number of bytes of the decoded text, which lacks the original white space of words.
int64_t text_bytes(const TokenSource& tokens, const Tokenizer& tokenizer) {
  if (tokenizer.kind() == "words") return 0;
  std::vector<int64_t> lengths;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool text = id != tokenizer.end_of_text();
    lengths.push_back(text ? static_cast<int64_t>(tokenizer.piece(id).size()) : 0);
  }
  constexpr int64_t kAtATime = int64_t{1} << 16;
  std::vector<int64_t> ids(static_cast<size_t>(kAtATime));
  int64_t bytes = 0;
  for (int64_t begin = 0; begin < tokens.size(); begin += kAtATime) {
    const int64_t count = std::min(kAtATime, tokens.size() - begin);
    tokens.copy(begin, count, ids.data());
    for (int64_t i = 0; i < count; ++i) {
      bytes += lengths[static_cast<size_t>(ids[static_cast<size_t>(i)])];
    }
  }
  return bytes;
}

std::shared_ptr<const Tokenizer> tokenizer_of_files(const TextSpec& spec, const TextLayout& layout,
                                                    std::shared_ptr<const Tokenizer> known) {
  if (!known) return find_token_tokenizer(spec.tokenizer, layout);
  if (!layout.tokenizer_file.empty() &&
      read_tokenizer_file(layout.tokenizer_file)->to_json() != known->to_json()) {
    fail_data("The tokens of '", layout.path, "' were made with another tokenizer than the ",
              "model's, as '", layout.tokenizer_file.string(),
              "' says; give the text, or tokens of the model's tokenizer.");
  }
  return known;
}

int64_t vocab_of(const TokenFile& file, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return tokenizer->vocab_size();
  return file.format() == TokenFormat::kLlmC ? kGpt2Vocab : int64_t{file.largest()} + 1;
}

// Maps a part of a token file; `tokens` of the result is null if the part is empty.
TextSplit map_part(const TextPart& part, std::shared_ptr<const TokenFile> file, int64_t vocab,
                   const Tokenizer* counting) {
  const auto size = static_cast<double>(file->size());
  const auto begin = static_cast<int64_t>(size * part.begin);
  const auto count = static_cast<int64_t>(size * part.end) - begin;
  if (count == 0) return {};
  TextSplit split;
  split.tokens = std::make_shared<TokenSource>(std::move(file), begin, count, vocab);
  if (counting != nullptr) split.bytes = text_bytes(*split.tokens, *counting);
  return split;
}

TextData open_token_files(const TextSpec& spec, const TextLayout& layout,
                          std::shared_ptr<const Tokenizer> known) {
  TextData data;
  data.tokenizer = tokenizer_of_files(spec, layout, std::move(known));
  std::map<std::string, std::shared_ptr<const TokenFile>> files;  // by path
  for (const auto& [split, part] : layout.parts) {
    auto& file = files[part.file.string()];
    if (!file) file = std::make_shared<TokenFile>(part.file);
    data.vocab_size = std::max(data.vocab_size, vocab_of(*file, data.tokenizer.get()));
  }
  for (const auto& [split, part] : layout.parts) {
    const Tokenizer* counting = split == "train" ? nullptr : data.tokenizer.get();
    put(split, map_part(part, files.at(part.file.string()), data.vocab_size, counting), data);
  }
  return data;
}

constexpr int64_t kCheckedAtOnce = int64_t{1} << 29;  // tokens, of two bytes

void check_span(int64_t begin, int64_t count, int64_t size, const std::string& name) {
  if (begin < 0 || count < 0 || begin > size || count > size - begin) {
    fail_data(name, " has ", size, " tokens; ", count, " from place ", begin, " are not there.");
  }
}

}  // namespace

TextData open_text(const TextSpec& spec, std::shared_ptr<const Tokenizer> known) {
  check_tokenizer_name(spec.tokenizer);
  const TextLayout layout = find_text(spec.path, spec.holdout);
  return layout.tokens ? open_token_files(spec, layout, std::move(known))
                       : open_texts(spec, layout, std::move(known));
}

TextSplit open_text_split(const TextSpec& spec, const std::string& split,
                          std::shared_ptr<const Tokenizer> known) {
  check_tokenizer_name(spec.tokenizer);
  const TextLayout layout = find_text(spec.path, spec.holdout);
  const TextPart part = find_text_part(layout, split);
  TextSplit opened;
  if (layout.tokens) {
    const auto tokenizer = tokenizer_of_files(spec, layout, std::move(known));
    const auto file = std::make_shared<TokenFile>(part.file);
    opened = map_part(part, file, vocab_of(*file, tokenizer.get()), tokenizer.get());
  } else {
    if (!known) known = make_text_tokenizer(spec.tokenizer, layout);
    opened = encode_part(part, split, *known);
  }
  if (!opened.tokens) fail_data("'", part.file.string(), "' (", split, ") is empty.");
  return opened;
}

TokenSource::TokenSource(const std::vector<int32_t>& ids, std::string name)
    : name_(std::move(name)), size_(static_cast<int64_t>(ids.size())) {
  const bool fits = std::all_of(ids.begin(), ids.end(),
                                [](int32_t id) { return id >= 0 && id < kMaxTokenFileVocab; });
  if (!fits) {
    wide_ = ids;
    return;
  }
  narrow_.resize(ids.size());
  std::transform(ids.begin(), ids.end(), narrow_.begin(),
                 [](int32_t id) { return static_cast<uint16_t>(id); });
}

TokenSource::TokenSource(std::shared_ptr<const TokenFile> file, int64_t begin, int64_t count,
                         int64_t vocab)
    : name_(cat("'", file->path().string(), "'")),
      size_(count),
      file_(std::move(file)),
      begin_(begin),
      vocab_(vocab) {
  check_span(begin, count, file_->size(), name_);
  if (count <= kCheckedAtOnce) file_->check_below(vocab, begin, count);
}

int32_t TokenSource::at(int64_t i) const {
  int64_t id = 0;
  copy(i, 1, &id);
  return static_cast<int32_t>(id);
}

void TokenSource::copy(int64_t begin, int64_t count, int64_t* out) const {
  check_span(begin, count, size_, name_);
  if (file_) {
    file_->check_below(vocab_, begin_ + begin, count);
    std::copy_n(file_->ids() + begin_ + begin, count, out);
  } else if (!wide_.empty()) {
    std::copy_n(wide_.begin() + begin, count, out);
  } else {
    std::copy_n(narrow_.begin() + begin, count, out);
  }
}

std::vector<int64_t> crop_tokens(const TokenSource& source, int64_t batch, int64_t block,
                                 uint64_t seed, int64_t index) {
  if (batch < 1 || block < 1) {
    fail_usage("A batch of ", batch, " crops of ", block, " tokens is impossible.");
  }
  if (source.size() <= block) {
    fail_data(source.name(), " has ", human_number(source.size()), " tokens, fewer than the ",
              human_number(block), " + 1 of a crop; use a smaller block or more text.");
  }
  const int64_t length = checked_add(block, 1, "a crop");
  checked_mul(checked_mul(batch, length, "a batch"), 8, "a batch");
  std::vector<int64_t> crops(size_t(batch * length));
  Random random(seed, static_cast<uint64_t>(index));
  for (int64_t row = 0; row < batch; ++row) {
    source.copy(random.below(source.size() - block), length, crops.data() + row * length);
  }
  return crops;
}

}  // namespace tost
