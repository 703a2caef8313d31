// Tests of whole models whose sequences lie on several processes, a part of the tokens on each.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tost/comm/processes_test_util.h"
#include "tost/comm/split_tokens.h"
#include "tost/data/batch_share.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_sums_scope.h"

namespace tost::testing {

// The loss of a share of a batch, times the share's weight.
using SharedLoss = std::function<torch::Tensor(const BatchShare&)>;

inline BatchShare tokens_share(const Group& group) {
  return {.token_part = group.rank(), .token_parts = group.world()};
}

// Loss and gradients, by name.
inline StateDict loss_and_gradients(torch::nn::Module& model, const SharedLoss& loss,
                                    const BatchShare& share) {
  model.zero_grad();
  const torch::Tensor value = loss(share);
  value.backward();
  StateDict all{{"loss", value.detach().clone()}};
  for (const auto& one : model.named_parameters()) {
    const torch::Tensor& p = one.value();
    const torch::Tensor grad = p.grad();
    all[one.key()] = !grad.defined()    ? torch::zeros_like(p)
                     : grad.is_sparse() ? grad.to_dense()
                                        : grad.clone(torch::MemoryFormat::Contiguous);
  }
  EXPECT_GT(all.size(), 10);
  return all;
}

// The largest deviation of the sums over the processes from one process, relative to the largest
// number of each tensor.
inline double split_deviation(Group& group, torch::nn::Module& model, const SharedLoss& loss) {
  const StateDict whole = loss_and_gradients(model, loss, {});
  const TokenSums sums = token_sums(group);
  const TokenSumsScope scope(&sums);
  double worst = 0;
  for (auto& [name, part] : loss_and_gradients(model, loss, tokens_share(group))) {
    group.sum(part);
    const torch::Tensor& wanted = whole.at(name);
    const double size = wanted.abs().max().item<double>();
    EXPECT_GT(size, 0) << name;
    const double off = (part - wanted).abs().max().item<double>() / size;
    EXPECT_TRUE(std::isfinite(off)) << name;
    worst = std::max(worst, off);
  }
  return worst;
}

// Bytes that one process sends in forward and backward.
inline int64_t split_bytes(Group& group, torch::nn::Module& model, const SharedLoss& loss) {
  const TokenSums sums = token_sums(group);
  const TokenSumsScope scope(&sums);
  const int64_t before = group.sent();
  model.zero_grad();
  loss(tokens_share(group)).backward();
  return group.sent() - before;
}

}  // namespace tost::testing
