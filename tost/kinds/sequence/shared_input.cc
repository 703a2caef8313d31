#include "tost/kinds/sequence/shared_input.h"

#include "tost/train/shared_batch.h"

namespace tost {
namespace {

// Undefined where nothing is padded.
torch::Tensor needed_lengths(const torch::Tensor& ids, const torch::Tensor& lengths) {
  if (!lengths.defined() || lengths.eq(ids.size(1)).all().item<bool>()) return {};
  return lengths;
}

// This process's tokens of padded sequences, and their valid lengths. Padding makes the parts
// equal.
void take_tokens(const BatchShare& share, torch::Tensor& ids, torch::Tensor& lengths) {
  if (share.token_parts == 1 || !ids.defined()) return;
  const int64_t tokens = ids.size(1), part = (tokens + share.token_parts - 1) / share.token_parts;
  const int64_t padding = part * share.token_parts - tokens;
  if (padding > 0 && !lengths.defined()) lengths = torch::full({ids.size(0)}, tokens);
  ids = tokens_of(share, torch::constant_pad_nd(ids, {0, padding}));
  if (lengths.defined()) lengths = (lengths - share.token_part * part).clamp(0, part);
}

}  // namespace

TaskInput sequence_input(const BatchShare& share, const SequenceBatch& batch) {
  const int64_t all = batch.labels.size(0), rows = share.rows(all);
  std::vector<torch::Tensor> mine =
      rows_of(share, {batch.ids, needed_lengths(batch.ids, batch.lengths), batch.second,
                      needed_lengths(batch.second, batch.second_lengths), batch.labels});
  take_tokens(share, mine[0], mine[1]);
  take_tokens(share, mine[2], mine[3]);
  return {mine, rows, double(rows) / double(all * share.token_parts)};
}

}  // namespace tost
