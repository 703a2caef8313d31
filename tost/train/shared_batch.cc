#include "tost/train/shared_batch.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

using torch::Tensor;

std::vector<Tensor> rows_of(const BatchShare& share, std::vector<Tensor> tensors) {
  if (share.parts() == 1) return tensors;
  for (Tensor& x : tensors) {
    if (!x.defined()) continue;
    x = x.narrow(0, share.first_row(x.size(0)), share.rows(x.size(0))).contiguous();
  }
  return tensors;
}

Tensor tokens_of(const BatchShare& share, const Tensor& x) {
  if (share.token_parts == 1) return x;
  const int64_t tokens = x.size(1) / share.token_parts;
  return x.narrow(1, share.token_part * tokens, tokens).contiguous();
}

void check_split_mixer(const std::vector<std::string>& able, const std::string& mixer) {
  if (std::ranges::find(able, mixer) != able.end()) return;
  fail_usage("The mixer '", mixer,
             "' cannot divide a sequence over processes; leave "
             "sequence_parallel at 1, or use one of ",
             join(able, ", "), ".");
}

}  // namespace tost
