// Random crops of a text, as tensors.
#pragma once

#include <utility>

#include "tost/io/token_data.h"
#include "tost/torch.h"

namespace tost {

// The ids [batch, block] int64 of crop_tokens(), and the ids of the next tokens.
inline std::pair<torch::Tensor, torch::Tensor> crop_batch(const TokenSource& source, int64_t batch,
                                                          int64_t block, uint64_t seed,
                                                          int64_t index) {
  const auto crops = torch::tensor(crop_tokens(source, batch, block, seed, index), torch::kInt64)
                         .view({batch, block + 1});
  return {crops.slice(1, 0, block).contiguous(), crops.slice(1, 1).contiguous()};
}

}  // namespace tost
