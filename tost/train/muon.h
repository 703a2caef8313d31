// Muon (arXiv 2502.16982): for the matrices of blocks, a step along momentum whose singular values
// are all made about 1.
#pragma once

#include <vector>

#include "tost/train/adamw.h"

namespace tost {

struct MuonStep {
  double lr = 0, momentum = 0.95, weight_decay = 0;
  double gradient_scale = 1;  // the gradient counts times this
  int64_t parts = 1;          // matrices of equal height that the weight is cut into
};

// torch.optim.Muon with adjust_lr_fn "match_rms_adamw" and Nesterov momentum, of each part by
// itself, with products in the weight's type where torch has bfloat16. `buffer` is the momentum.
void muon_step(const MuonStep& options, const torch::Tensor& weight, const torch::Tensor& buffer,
               const torch::Tensor& gradient);

// x [M, N] with its singular values at about 1: five quintic Newton-Schulz steps.
torch::Tensor orthogonal(const torch::Tensor& x);

// The same groups, in which Muon has the matrices of the model's blocks: weights of linear maps
// that are at least half as wide as the block on both sides, so not those into one number a head.
std::vector<ParamGroup> with_muon(const torch::nn::Module& model, std::vector<ParamGroup> groups);

}  // namespace tost
