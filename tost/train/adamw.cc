#include "tost/train/adamw.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/ops/adamw_step.h"
#include "tost/train/muon.h"

namespace tost {
namespace {

using torch::Tensor;

// Returns the whole gradient of a parameter with a working copy. Most of the gradient is in the
// copy; the parameter may have a dense part, or a sparse part from table lookups.
Tensor copied_gradient(const Tensor& p, WorkingCopy& copy) {
  Tensor of_weight = p.grad(), other = copy.target().grad();
  if (of_weight.defined() && other.defined()) {
    if (of_weight.is_sparse()) {
      const Tensor rows = of_weight.coalesce();
      other.index_add_(0, rows.indices()[0], rows.values().to(other.scalar_type()));
      of_weight.reset();
    } else {
      of_weight.add_(other);
      other.reset();
    }
  } else if (of_weight.defined() && of_weight.is_sparse()) {
    of_weight = of_weight.to_dense();
  }
  if (of_weight.defined()) of_weight = of_weight.contiguous();
  if (other.defined()) other = other.contiguous();
  Tensor(p).mutable_grad() = of_weight;
  copy.target().mutable_grad() = other;
  return of_weight.defined() ? of_weight : other;
}

// Undefined without any.
Tensor norm_of_gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& p : parameters) {
    if (p.grad().defined()) gradients.push_back(p.grad());
  }
  if (gradients.empty()) return {};
  return torch::stack(at::_foreach_norm(gradients)).norm();
}

}  // namespace

AdamW::AdamW(std::vector<ParamGroup> groups, AdamWOptions options, Copies copies)
    : groups_(std::move(groups)), options_(options) {
  for (const ParamGroup& group : groups_) {
    auto& moments = moments_.emplace_back();
    const auto zeros = [](const Tensor& p) {
      return torch::zeros_like(p, at::MemoryFormat::Preserve).detach();
    };
    for (const Tensor& p : group.params) {
      moments.push_back({zeros(p), {}, {}});
      if (!group.muon_parts.empty()) continue;
      moments.back().exp_avg_sq = zeros(p);
      moments.back().step = torch::zeros({}, p.options().dtype(torch::kFloat)).detach();
    }
  }
  for (auto& copy : copies) {
    const void* key = copy->weight().unsafeGetTensorImpl();
    copies_[key] = std::move(copy);
  }
}

WorkingCopy* AdamW::copy_of(const Tensor& p) const {
  const auto found = copies_.find(p.unsafeGetTensorImpl());
  return found == copies_.end() ? nullptr : found->second.get();
}

void AdamW::step(double lr, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < groups_.size(); ++i) {
    step_group(groups_[i], moments_[i], lr, gradient_scale);
  }
}

// Working copies are rounded again at the next use, because the weights have changed.
void AdamW::step_muon(const ParamGroup& group, const std::vector<Moments>& moments, double lr,
                      double gradient_scale) const {
  for (size_t i = 0; i < group.params.size(); ++i) {
    const Tensor& p = group.params[i];
    WorkingCopy* copy = copy_of(p);
    const Tensor gradient = copy != nullptr ? copied_gradient(p, *copy) : p.grad();
    if (!gradient.defined()) continue;
    muon_step({.lr = lr,
               .momentum = options_.momentum,
               .weight_decay = group.weight_decay,
               .gradient_scale = gradient_scale,
               .parts = group.muon_parts[i]},
              p, moments[i].exp_avg, gradient);
  }
}

// Uses ATen's fused kernel, which reads p, g, m, v and writes p, m, v once: 28 bytes per element in
// float32.
void AdamW::step_group(const ParamGroup& group, const std::vector<Moments>& moments, double lr,
                       double gradient_scale) const {
  if (!group.muon_parts.empty()) return step_muon(group, moments, lr, gradient_scale);
  std::vector<Tensor> params, grads, exp_avgs, exp_avg_sqs, steps;
  for (size_t i = 0; i < group.params.size(); ++i) {
    const Tensor& p = group.params[i];
    if (WorkingCopy* copy = copy_of(p)) {
      step_copied(p, *copy, moments[i], lr, group.weight_decay, gradient_scale);
      continue;
    }
    if (!p.grad().defined()) continue;
    params.push_back(p);
    grads.push_back(p.grad());
    exp_avgs.push_back(moments[i].exp_avg);
    exp_avg_sqs.push_back(moments[i].exp_avg_sq);
    steps.push_back(moments[i].step);
  }
  if (params.empty()) return;
  at::_foreach_add_(steps, 1);
  std::optional<Tensor> divisor;
  if (gradient_scale != 1) divisor = torch::full({}, 1 / gradient_scale, steps[0].options());
  at::_fused_adamw_(params, grads, exp_avgs, exp_avg_sqs, {}, steps, lr, options_.beta1,
                    options_.beta2, group.weight_decay, options_.eps, /*amsgrad=*/false,
                    /*maximize=*/false, divisor);
  // Increases the version, which the kernel does not do, so that working copies are updated.
  for (const Tensor& p : params) p.unsafeGetTensorImpl()->bump_version();
}

void AdamW::step_copied(const Tensor& p, WorkingCopy& copy, const Moments& moments, double lr,
                        double weight_decay, double gradient_scale) const {
  const Tensor gradient = copied_gradient(p, copy);
  if (!gradient.defined()) return;
  moments.step.add_(1);
  adamw_step({.lr = lr,
              .beta1 = options_.beta1,
              .beta2 = options_.beta2,
              .eps = options_.eps,
              .weight_decay = weight_decay,
              .gradient_scale = gradient_scale,
              .step = moments.step.item<double>()},
             p, moments.exp_avg, moments.exp_avg_sq, copy.target(), gradient);
  copy.note_written();
}

void AdamW::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (Tensor& p : group.params) p.mutable_grad() = Tensor();
  }
  for (const auto& [key, copy] : copies_) copy->target().mutable_grad() = Tensor();
}

double AdamW::gradient_norm() {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> others;
  double squares = 0;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.params) {
      WorkingCopy* copy = copy_of(p);
      if (copy == nullptr) {
        others.push_back(p);
      } else if (const Tensor gradient = copied_gradient(p, *copy); gradient.defined()) {
        squares += sum_of_squares(gradient);
      }
    }
  }
  const double rest = tost::gradient_norm(others);
  return copies_.empty() ? rest : std::sqrt(squares + rest * rest);
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
      if (!groups_[g].muon_parts.empty()) {
        state["momentum_buffer." + name] = moments_[g][i].exp_avg;
        continue;
      }
      state["exp_avg." + name] = moments_[g][i].exp_avg;
      state["exp_avg_sq." + name] = moments_[g][i].exp_avg_sq;
      state["step." + name] = moments_[g][i].step;
    }
  }
  return state;
}

void AdamW::load_state(const std::map<std::string, Tensor>& state) {
  const torch::NoGradGuard no_grad;
  const auto own = this->state();
  for (const auto& [key, into] : own) Tensor(into).copy_(state_tensor(state, key, into));
  for (const auto& [key, tensor] : state) {
    if (!own.contains(key))
      fail_data("The optimizer state holds tensor '", key, "' that no parameter has.");
  }
}

const Tensor& state_tensor(const std::map<std::string, Tensor>& state, const std::string& key,
                           const Tensor& like) {
  const auto found = state.find(key);
  if (found == state.end()) {
    fail_data("The optimizer state lacks tensor '", key,
              "'; resume with the model that the run was started with.");
  }
  const Tensor& from = found->second;
  if (from.sizes() != like.sizes() || from.scalar_type() != like.scalar_type()) {
    fail_data("Tensor '", key, "' of the optimizer state is ", from.scalar_type(), " ",
              from.sizes(), " but the model needs ", like.scalar_type(), " ", like.sizes(), ".");
  }
  return from;
}

double gradient_norm(const std::vector<Tensor>& parameters) {
  const Tensor norm = norm_of_gradients(parameters);
  return norm.defined() ? norm.item<double>() : 0;
}

double clip_scale(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace tost
