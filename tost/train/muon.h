// Muon (arXiv 2502.16982): updates matrices of blocks by momentum with singular values of about 1.
#pragma once

#include <vector>

#include "tost/train/adamw.h"

namespace tost {

struct MuonStep {
  double lr = 0, momentum = 0.95, weight_decay = 0;
  double gradient_scale = 1;  // the gradient counts times this
  int64_t parts = 1;          // matrices of equal height that the weight is cut into
};

// Takes the step of torch.optim.Muon with adjust_lr_fn "match_rms_adamw" and Nesterov momentum,
// separately for each part. Products have the weight's type (torch: bfloat16). `buffer` is the
// momentum.
void muon_step(const MuonStep& options, const torch::Tensor& weight, const torch::Tensor& buffer,
               const torch::Tensor& gradient);

// Brings the singular values of x [M, N] close to 1 by five quintic Newton-Schulz steps.
torch::Tensor orthogonal(const torch::Tensor& x);

// Marks in `groups` the matrices for Muon: weights of linear maps in blocks, if both sides are at
// least half the block's width.
std::vector<ParamGroup> with_muon(const torch::nn::Module& model, std::vector<ParamGroup> groups);

}  // namespace tost
