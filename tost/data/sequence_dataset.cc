#include "tost/data/sequence_dataset.h"

#include <algorithm>

namespace tost {
namespace {

std::vector<int32_t> tokens_of(std::string_view text) {
  std::vector<int32_t> tokens(text.size());
  std::transform(text.begin(), text.end(), tokens.begin(),
                 [](char c) { return int32_t{static_cast<uint8_t>(c)} + 1; });
  return tokens;
}

}  // namespace

StoredSequences::StoredSequences(SequenceRows rows, int64_t max_length) : rows_(std::move(rows)) {
  if (max_length == 0) return;
  for (std::string_view& text : rows_.texts) {
    text = text.substr(0, static_cast<size_t>(max_length));
  }
}

SequenceSample StoredSequences::sample(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  if (!rows_.coding.pairs) return {tokens_of(rows_.texts[at]), {}, rows_.labels[at]};
  return {tokens_of(rows_.texts[2 * at]), tokens_of(rows_.texts[2 * at + 1]), rows_.labels[at]};
}

int64_t StoredSequences::length(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  const size_t length = rows_.coding.pairs
                            ? std::max(rows_.texts[2 * at].size(), rows_.texts[2 * at + 1].size())
                            : rows_.texts[at].size();
  return static_cast<int64_t>(length);
}

}  // namespace tost
