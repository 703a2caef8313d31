// AdamW (decoupled weight decay, arXiv 1711.05101) over named parameter groups, in one pass over
// memory; Muon in the groups that ask for it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/nn/working_copy.h"

namespace tost {

// A set of parameters that share a weight decay.
struct ParamGroup {
  // One a parameter, unique over all groups: the key of its state in checkpoints.
  std::vector<std::string> names;
  std::vector<torch::Tensor> params;
  double weight_decay = 0;
  // Muon's, by parameter: the matrices that it is cut into (muon.h). Empty: AdamW's.
  std::vector<int64_t> muon_parts = {};
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;  // Muon's
};

// p <- p (1 - lr wd); m <- b1 m + (1 - b1) g; v <- b2 v + (1 - b2) g^2;
// p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps). Equal to torch.optim.AdamW to
// rounding. Deterministic for any thread count (element by element). Parameters are float32 or
// float64. Those with a working copy have their gradient there or in themselves, or a part in
// either; the copy is written in the same pass.
class AdamW {
 public:
  using Copies = std::vector<std::shared_ptr<WorkingCopy>>;
  // `copies`: of some of the parameters. They are not part of the state.
  AdamW(std::vector<ParamGroup> groups, AdamWOptions options, Copies copies = {});

  // Takes each gradient times `gradient_scale` (> 0). Parameters without a gradient do not
  // change, nor do their moments.
  void step(double lr, double gradient_scale = 1);
  void zero_grad();
  // The 2-norm of all gradients.
  double gradient_norm();

  const std::vector<ParamGroup>& groups() const { return groups_; }
  std::vector<torch::Tensor> parameters() const;

  // Exact state, which shares memory: "exp_avg.NAME", "exp_avg_sq.NAME" (like the parameter),
  // "step.NAME" (float scalar); of Muon "momentum_buffer.NAME" alone.
  std::map<std::string, torch::Tensor> state() const;
  // Strict: throws a data Error naming the tensor that is missing, unexpected or of another shape.
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

// A tensor of a saved state. Throws a data Error if it is missing or has other sizes than `like`.
const torch::Tensor& state_tensor(const std::map<std::string, torch::Tensor>& state,
                                  const std::string& key, const torch::Tensor& like);

// The 2-norm of the gradients of parameters without working copies.
double gradient_norm(const std::vector<torch::Tensor>& parameters);

// The factor that reduces gradients of this norm to max_norm, as torch's clip_grad_norm_: 1, or
// max_norm / (norm + 1e-6). As argument of AdamW::step it costs no pass over the gradients.
double clip_scale(double norm, double max_norm);

}  // namespace tost
