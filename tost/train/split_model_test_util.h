// Tests of whole models whose sequences are split among processes, a part of the tokens on each.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tost/comm/processes_test_util.h"
#include "tost/comm/sums.h"
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

// The same of the part of this process, and the sums over the processes.
inline StateDict summed_gradients(Group& group, torch::nn::Module& model, const SharedLoss& loss) {
  const TokenSums sums = token_sums(group);
  const TokenSumsScope scope(&sums);
  StateDict all = loss_and_gradients(model, loss, tokens_share(group));
  for (auto& [name, part] : all) group.sum(part);
  return all;
}

// Relative to `exact`, as norms.
inline double deviation(const torch::Tensor& x, const torch::Tensor& exact) {
  const torch::Tensor wide = exact.to(torch::kDouble);
  return ((x.to(torch::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// Loss and gradients of a float32 model, which becomes one of float64. From one process in float64
// the processes deviate by at most 1e-5 or 16 times what one process does in float32, and in
// float64 by at most `wide_bound`. What one process does is the most of all gradients: that of a
// single parameter, in which terms cancel, may be right by luck.
inline void expect_split_equal(Group& group, torch::nn::Module& model, const SharedLoss& loss,
                               double wide_bound, const std::string& name) {
  const StateDict whole = loss_and_gradients(model, loss, {});
  const StateDict parts = summed_gradients(group, model, loss);
  model.to(torch::kDouble);
  const StateDict exact = loss_and_gradients(model, loss, {});
  double between = 0, single = 0, split = 0, wide = 0;
  for (const auto& [key, found] : whole) single = std::max(single, deviation(found, exact.at(key)));
  for (const auto& [key, part] : summed_gradients(group, model, loss)) {
    const double got = deviation(parts.at(key), exact.at(key));
    EXPECT_LT(got, std::max(1e-5, 16 * single)) << name << " " << key;
    EXPECT_LT(deviation(part, exact.at(key)), wide_bound) << name << " " << key;
    between = std::max(between, deviation(parts.at(key), whole.at(key)));
    split = std::max(split, got);
    wide = std::max(wide, deviation(part, exact.at(key)));
  }
  if (!group.first()) return;
  std::printf("%-28s float32: %.1e between them, %.1e and %.1e from float64; float64: %.1e\n",
              name.c_str(), between, single, split, wide);
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
