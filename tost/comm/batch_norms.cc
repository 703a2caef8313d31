#include "tost/comm/batch_norms.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

namespace tost {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local Group* batch_norm_group = nullptr;

// Reshapes values [C] to [1, C, 1, ...] with as many dimensions as z.
Tensor over_channels(const Tensor& values, const Tensor& z) {
  std::vector<int64_t> sizes(size_t(z.dim()), 1);
  sizes[1] = z.size(1);
  return values.view(sizes);
}

std::vector<int64_t> all_but_channels(const Tensor& z) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < z.dim(); ++d) dims.push_back(d);
  return dims;
}

class SyncedNorm : public torch::autograd::Function<SyncedNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& z, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& rstd, int64_t rows,
                        int64_t group) {
    context->save_for_backward({z, weight, mean, rstd});
    context->saved_data["rows"] = rows;
    context->saved_data["group"] = group;
    const Tensor x = (z.to(torch::kFloat) - over_channels(mean, z)) * over_channels(rstd, z);
    return (x * over_channels(weight, z) + over_channels(bias, z)).to(z.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto &z = saved[0], &weight = saved[1], &mean = saved[2], &rstd = saved[3];
    auto& group = *reinterpret_cast<Group*>(context->saved_data["group"].toInt());
    const double rows = double(context->saved_data["rows"].toInt());
    const std::vector<int64_t> dims = all_but_channels(z);
    const Tensor x = (z.to(torch::kFloat) - over_channels(mean, z)) * over_channels(rstd, z);
    const Tensor grad = grads[0].to(torch::kFloat);
    const Tensor local = torch::stack({grad.sum(dims), (grad * x).sum(dims)});
    const Tensor sums = local.clone();
    group.sum(sums);
    const Tensor means = sums / rows;
    const Tensor rest = grad - over_channels(means[0], z) - x * over_channels(means[1], z);
    return {(rest * over_channels(weight * rstd, z)).to(z.scalar_type()),
            local[1],
            local[0],
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

BatchNormScope::BatchNormScope(Group* group) : before_(batch_norm_group) {
  batch_norm_group = group;
}

BatchNormScope::~BatchNormScope() {
  batch_norm_group = before_;
}

Group* BatchNormScope::group() {
  return batch_norm_group;
}

Tensor synced_batch_norm(Group& group, const Tensor& z, const Tensor& weight, const Tensor& bias,
                         double eps, BatchMoments& moments) {
  Tensor rstd;
  {
    const torch::NoGradGuard no_grad;
    const std::vector<int64_t> dims = all_but_channels(z);
    const Tensor wide = z.to(torch::kDouble);
    const int64_t channels = z.size(1);
    Tensor sums = torch::cat(
        {wide.sum(dims), torch::full({1}, double(z.numel() / channels), wide.options())});
    group.sum(sums);
    const double rows = sums[channels].item<double>();
    const Tensor mean = sums.narrow(0, 0, channels) / rows;
    Tensor squares = (wide - over_channels(mean, z)).square().sum(dims);
    group.sum(squares);
    moments = {mean.to(torch::kFloat), (squares / rows).to(torch::kFloat), int64_t(rows)};
    rstd = (moments.variance + eps).rsqrt();
  }
  return SyncedNorm::apply(z, weight, bias, moments.mean, rstd, moments.rows,
                           reinterpret_cast<int64_t>(&group));
}

RunningStatistics::RunningStatistics(Group& group, const torch::nn::Module& module)
    : group_(group) {
  std::vector<Tensor> keep;
  const auto add = [&](const auto* norm) {
    if (norm == nullptr || !norm->running_mean.defined()) return;
    const double momentum = norm->options.momentum().value_or(0.1);
    norms_.push_back({norm->running_mean, norm->running_var, norm->num_batches_tracked, momentum});
    keep.push_back(torch::full({2 * norm->running_mean.numel()}, 1 - momentum,
                               norm->running_mean.options().dtype(torch::kDouble)));
  };
  for (const auto& child : module.modules()) {
    add(child->template as<torch::nn::BatchNorm1dImpl>());
    add(child->template as<torch::nn::BatchNorm2dImpl>());
  }
  if (!keep.empty()) keep_ = torch::cat(keep);
}

Tensor RunningStatistics::values() const {
  std::vector<Tensor> all;
  for (const Norm& norm : norms_) {
    all.push_back(norm.mean.detach().to(torch::kDouble).view({-1}));
    all.push_back(norm.variance.detach().to(torch::kDouble).view({-1}));
  }
  return torch::cat(all);
}

void RunningStatistics::begin() {
  if (norms_.empty()) return;
  at_start_ = values();
  added_ = torch::zeros_like(at_start_);
  tracked_.clear();
  for (const Norm& norm : norms_) tracked_.push_back(norm.tracked.item<int64_t>());
}

void RunningStatistics::before_batch() {
  if (!norms_.empty()) before_ = values();
}

void RunningStatistics::after_batch(int64_t later, bool counts) {
  if (norms_.empty() || !counts) return;
  added_ += keep_.pow(double(later)) * (values() - keep_ * before_);
}

void RunningStatistics::finish(int64_t batches) {
  if (norms_.empty()) return;
  const torch::NoGradGuard no_grad;
  group_.sum(added_);
  const Tensor now = keep_.pow(double(batches)) * at_start_ + added_;
  int64_t at = 0;
  for (size_t i = 0; i < norms_.size(); ++i) {
    for (const Tensor& into : {norms_[i].mean, norms_[i].variance}) {
      into.copy_(now.narrow(0, at, into.numel()).view(into.sizes()));
      at += into.numel();
    }
    norms_[i].tracked.fill_(tracked_[i] + batches);
  }
}

}  // namespace tost
