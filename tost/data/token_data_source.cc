#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/data/token_data.h"

namespace tost {
namespace {

constexpr int64_t kJudgedAtOnce = int64_t{1} << 29;  // tokens, of two bytes

void check_span(int64_t begin, int64_t count, int64_t size, const std::string& name) {
  if (begin < 0 || count < 0 || begin > size || count > size - begin) {
    fail_data(name, " has ", size, " tokens; ", count, " from place ", begin, " are not there.");
  }
}

}  // namespace

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
  if (count <= kJudgedAtOnce) file_->check_below(vocab, begin, count);
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

std::pair<torch::Tensor, torch::Tensor> crop_batch(const TokenSource& source, int64_t batch,
                                                   int64_t block, uint64_t seed, int64_t index) {
  if (batch < 1 || block < 1) {
    fail_usage("A batch of ", batch, " crops of ", block, " tokens is impossible.");
  }
  if (source.size() <= block) {
    fail_data(source.name(), " has ", human_number(source.size()), " tokens, fewer than the ",
              human_number(block), " + 1 of a crop; use a smaller block or more text.");
  }
  const int64_t length = checked_add(block, 1, "a crop");
  checked_mul(checked_mul(batch, length, "a batch"), 8, "a batch");
  torch::Tensor crops = torch::empty({batch, length}, torch::kInt64);
  Random random(seed, static_cast<uint64_t>(index));
  for (int64_t row = 0; row < batch; ++row) {
    source.copy(random.below(source.size() - block), length,
                crops.data_ptr<int64_t>() + row * length);
  }
  return {crops.slice(1, 0, block).contiguous(), crops.slice(1, 1, length).contiguous()};
}

}  // namespace tost
