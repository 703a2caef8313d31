#include "tost/train/adamw.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"

namespace tost {
namespace {

using torch::Tensor;

void copy_state(Tensor& into, const std::map<std::string, Tensor>& state, const std::string& key) {
  const auto found = state.find(key);
  if (found == state.end()) {
    fail_data("The optimizer state lacks tensor '", key,
              "'; resume with the model that the run was started with.");
  }
  const Tensor& from = found->second;
  if (from.sizes() != into.sizes() || from.scalar_type() != into.scalar_type()) {
    fail_data("Tensor '", key, "' of the optimizer state is ", from.scalar_type(), " ",
              from.sizes(), " but the model needs ", into.scalar_type(), " ", into.sizes(), ".");
  }
  into.copy_(from);
}

}  // namespace

AdamW::AdamW(std::vector<ParamGroup> groups, AdamWOptions options)
    : groups_(std::move(groups)), options_(options) {
  for (const ParamGroup& group : groups_) {
    auto& moments = moments_.emplace_back();
    for (const Tensor& p : group.params) {
      moments.push_back({torch::zeros_like(p, at::MemoryFormat::Preserve).detach(),
                         torch::zeros_like(p, at::MemoryFormat::Preserve).detach(),
                         torch::zeros({}, torch::kFloat)});
    }
  }
}

void AdamW::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  std::optional<Tensor> divisor;
  if (gradient_scale != 1) divisor = torch::tensor(1 / gradient_scale, torch::kFloat);
  for (size_t i = 0; i < groups_.size(); ++i) step_group(groups_[i], moments_[i], lr, divisor);
}

// ATen's fused kernel reads p, g, m, v and writes p, m, v once: 28 bytes an element in float32.
void AdamW::step_group(const ParamGroup& group, const std::vector<Moments>& moments, double lr,
                       const std::optional<Tensor>& divisor) {
  std::vector<Tensor> params, grads, exp_avgs, exp_avg_sqs, steps;
  for (size_t i = 0; i < group.params.size(); ++i) {
    if (!group.params[i].grad().defined()) continue;
    moments[i].step.add_(1);
    params.push_back(group.params[i]);
    grads.push_back(group.params[i].grad());
    exp_avgs.push_back(moments[i].exp_avg);
    exp_avg_sqs.push_back(moments[i].exp_avg_sq);
    steps.push_back(moments[i].step);
  }
  if (params.empty()) return;
  at::_fused_adamw_(params, grads, exp_avgs, exp_avg_sqs, {}, steps, lr, options_.beta1,
                    options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                    /*maximize=*/false, divisor);
}

void AdamW::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (Tensor& p : group.params) p.mutable_grad() = Tensor();
  }
}

std::vector<Tensor> AdamW::parameters() const {
  std::vector<Tensor> all;
  for (const ParamGroup& group : groups_)
    all.insert(all.end(), group.params.begin(), group.params.end());
  return all;
}

std::map<std::string, Tensor> AdamW::state() const {
  std::map<std::string, Tensor> state;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      const std::string& name = groups_[g].names[i];
      state["exp_avg." + name] = moments_[g][i].exp_avg;
      state["exp_avg_sq." + name] = moments_[g][i].exp_avg_sq;
      state["step." + name] = moments_[g][i].step;
    }
  }
  return state;
}

void AdamW::load_state(const std::map<std::string, Tensor>& state) {
  const torch::NoGradGuard no_grad;
  size_t expected = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i, expected += 3) {
      const std::string& name = groups_[g].names[i];
      copy_state(moments_[g][i].exp_avg, state, "exp_avg." + name);
      copy_state(moments_[g][i].exp_avg_sq, state, "exp_avg_sq." + name);
      copy_state(moments_[g][i].step, state, "step." + name);
    }
  }
  if (state.size() == expected) return;
  const auto known = this->state();
  for (const auto& [key, tensor] : state) {
    if (!known.contains(key))
      fail_data("The optimizer state holds tensor '", key, "' that no parameter has.");
  }
}

double gradient_norm(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& p : parameters) {
    if (p.grad().defined()) gradients.push_back(p.grad());
  }
  if (gradients.empty()) return 0;
  return torch::stack(at::_foreach_norm(gradients)).norm().item<double>();
}

double clip_scale(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace tost
