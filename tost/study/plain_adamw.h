// AdamW as torch's eager optimiser has it on the CPU: a handful of operations a tensor.
#pragma once

#include <vector>

#include "tost/torch.h"
#include "tost/train/adamw.h"

namespace tost {

class PlainAdamW {
 public:
  PlainAdamW(std::vector<ParamGroup> groups, AdamWOptions options);

  // Gradients are first scaled to a norm of at most max_norm, in place.
  void step(double lr, double max_norm);
  void zero_grad();

 private:
  struct Moments {
    torch::Tensor exp_avg, exp_avg_sq;
  };
  void step_one(const torch::Tensor& p, const Moments& moments, double lr, double weight_decay);

  std::vector<ParamGroup> groups_;
  std::vector<std::vector<Moments>> moments_;
  AdamWOptions options_;
  int64_t steps_ = 0;
};

}  // namespace tost
