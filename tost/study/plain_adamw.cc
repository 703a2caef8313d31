#include "tost/study/plain_adamw.h"

#include <cmath>

namespace tost {

using torch::Tensor;

PlainAdamW::PlainAdamW(std::vector<ParamGroup> groups, AdamWOptions options)
    : groups_(std::move(groups)), options_(options) {
  for (const ParamGroup& group : groups_) {
    auto& moments = moments_.emplace_back();
    for (const Tensor& p : group.params) {
      moments.push_back({torch::zeros_like(p).detach(), torch::zeros_like(p).detach()});
    }
  }
}

void PlainAdamW::zero_grad() {
  for (ParamGroup& group : groups_) {
    for (Tensor& p : group.params) p.mutable_grad() = Tensor();
  }
}

void PlainAdamW::step(double lr, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> all, gradients;
  for (const ParamGroup& group : groups_) {
    for (const Tensor& p : group.params) {
      if (!p.grad().defined()) continue;
      if (p.grad().is_sparse()) Tensor(p).mutable_grad() = p.grad().to_dense();
      all.push_back(p);
      gradients.push_back(p.grad());
    }
  }
  at::_foreach_mul_(gradients, clip_scale(gradient_norm(all), max_norm));
  ++steps_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].params.size(); ++i) {
      const Tensor& p = groups_[g].params[i];
      if (p.grad().defined()) step_one(p, moments_[g][i], lr, groups_[g].weight_decay);
    }
  }
}

void PlainAdamW::step_one(const Tensor& p, const Moments& moments, double lr, double weight_decay) {
  const Tensor gradient = p.grad();
  Tensor value = p, m = moments.exp_avg, v = moments.exp_avg_sq;
  const double rest1 = 1 - std::pow(options_.beta1, double(steps_));
  const double rest2 = 1 - std::pow(options_.beta2, double(steps_));
  value.mul_(1 - lr * weight_decay);
  m.lerp_(gradient, 1 - options_.beta1);
  v.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
  value.addcdiv_(m, (v.sqrt() / std::sqrt(rest2)).add_(options_.eps), -lr / rest1);
}

}  // namespace tost
