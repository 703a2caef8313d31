// Muon (arXiv 2502.16982): updates matrices of blocks by their momentum with all singular values
// made about 1.
#pragma once

#include <vector>

#include "tost/train/adamw.h"

namespace tost {

struct MuonStep {
  double lr = 0, momentum = 0.95, weight_decay = 0;
  double gradient_scale = 1;  // the gradient counts times this
  int64_t parts = 1;          // matrices of equal height that the weight is cut into
};

// Takes the step of torch.optim.Muon with adjust_lr_fn "match_rms_adamw" and Nesterov momentum, for
// each part alone, with products in the weight's type (torch: bfloat16). `buffer` is the momentum.
void muon_step(const MuonStep& options, const torch::Tensor& weight, const torch::Tensor& buffer,
               const torch::Tensor& gradient);

// Makes the singular values of x [M, N] about 1 by five quintic Newton-Schulz steps.
torch::Tensor orthogonal(const torch::Tensor& x);

// Marks the matrices of the model's blocks in `groups` for Muon: weights of linear maps that are at
// least half as wide as the block on both sides, which excludes maps to one number per head.
std::vector<ParamGroup> with_muon(const torch::nn::Module& model, std::vector<ParamGroup> groups);

}  // namespace tost
