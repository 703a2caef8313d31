// AdamW (arXiv 1711.05101) over named parameter groups, in one pass over memory, and Muon in groups
// that are marked for Muon.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/nn/layers.h"

namespace tost {

// A set of parameters that share a weight decay.
struct ParamGroup {
  // The names of the parameters, unique over all groups; checkpoints use them as keys.
  std::vector<std::string> names;
  std::vector<torch::Tensor> params;
  double weight_decay = 0;
  // For Muon: the number of matrices in each parameter (muon.h). Empty for AdamW.
  std::vector<int64_t> muon_parts = {};
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;  // Muon's
};

// Computes p <- p (1 - lr wd); m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2; p <- p - lr (m /
// (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps). The result is that of torch.optim.AdamW up to
// rounding, with the same bits for any number of threads. Parameters are float32 or float64. A
// parameter with a working copy has its gradient in the copy, in itself, or in both. The pass also
// writes the copy.
class AdamW {
 public:
  using Copies = std::vector<std::shared_ptr<WorkingCopy>>;
  // `copies` are working copies of some parameters; they are not part of the state.
  AdamW(std::vector<ParamGroup> groups, AdamWOptions options, Copies copies = {});

  // Multiplies each gradient by `gradient_scale` (> 0). Parameters without a gradient, and their
  // moments, do not change.
  void step(double lr, double gradient_scale = 1);
  void zero_grad();
  // The 2-norm over all gradients.
  double gradient_norm();

  const std::vector<ParamGroup>& groups() const { return groups_; }
  std::vector<torch::Tensor> parameters() const;

  // The state of the optimiser, as tensors that share memory with it: "exp_avg.NAME",
  // "exp_avg_sq.NAME" and "step.NAME" (float scalar); for Muon only "momentum_buffer.NAME".
  std::map<std::string, torch::Tensor> state() const;
  // Loads such a state. Loads a state; throws a data Error naming a tensor that is missing,
  // unexpected or of another shape.
  void load_state(const std::map<std::string, torch::Tensor>& state);

 private:
  struct Moments {
    torch::Tensor exp_avg, exp_avg_sq, step;  // of Muon exp_avg alone, its momentum
  };
  void step_group(const ParamGroup& group, const std::vector<Moments>& moments, double lr,
                  double gradient_scale) const;
  void step_muon(const ParamGroup& group, const std::vector<Moments>& moments, double lr,
                 double gradient_scale) const;
  void step_copied(const torch::Tensor& p, WorkingCopy& copy, const Moments& moments, double lr,
                   double weight_decay, double gradient_scale) const;
  WorkingCopy* copy_of(const torch::Tensor& p) const;

  std::vector<ParamGroup> groups_;
  std::vector<std::vector<Moments>> moments_;  // in the order of groups_
  AdamWOptions options_;
  std::map<const void*, std::shared_ptr<WorkingCopy>> copies_;  // by parameter
};

// Finds a tensor of a saved state. Throws a data Error for a missing tensor, or one with other
// sizes than `like`.
const torch::Tensor& state_tensor(const std::map<std::string, torch::Tensor>& state,
                                  const std::string& key, const torch::Tensor& like);

// The 2-norm of the gradients of parameters without working copies.
double gradient_norm(const std::vector<torch::Tensor>& parameters);

// The factor by which torch's clip_grad_norm_ reduces gradients: max_norm / (norm + 1e-6), at most
// 1. AdamW::step applies the factor without another pass over the gradients.
double clip_scale(double norm, double max_norm);

}  // namespace tost
