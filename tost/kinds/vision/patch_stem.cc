#include "tost/kinds/vision/patch_stem.h"

#include <string>

#include "tost/comm/batch_norms.h"
#include "tost/nn/branch_calls.h"
#include "tost/ops/stem_grad.h"

namespace tost {

PatchStem::PatchStem(int64_t in_channels, int64_t dim, int64_t patch, int64_t depth) {
  proj = register_module("proj", std::make_shared<torch::nn::Module>("proj"));
  int64_t from = in_channels;
  for (int64_t rest = patch; rest > 1; rest /= 2) {
    const int64_t to = dim / (rest / 2);
    add_stage(from, to, 2);
    for (int64_t i = 1; i < depth; ++i) add_stage(to, to, 1);
    from = to;
  }
}

void PatchStem::add_stage(int64_t from, int64_t to, int64_t stride) {
  auto stage = proj->register_module(std::to_string(2 * stages_.size()),
                                     std::make_shared<torch::nn::Module>("stage"));
  auto options = torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false);
  stages_.push_back(
      {stage->register_module("0", std::make_shared<torch::nn::Conv2dImpl>(options)),
       stage->register_module("1", std::make_shared<torch::nn::BatchNorm2dImpl>(to))});
}

torch::Tensor PatchStem::forward(const torch::Tensor& images) {
  auto x = images;
  for (size_t i = 0; i < stages_.size(); ++i) {
    // With one channel the layout is ambiguous and the first convolution may answer channels-first.
    x = stages_[i].conv->forward(x.contiguous(torch::MemoryFormat::ChannelsLast));
    x = norm_gelu(*stages_[i].norm, x.contiguous(torch::MemoryFormat::ChannelsLast),
                  /*gelu=*/i + 1 < stages_.size());
  }
  return x.permute({0, 2, 3, 1}).contiguous();
}

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class NormGelu : public torch::autograd::Function<NormGelu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& z, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& rstd, bool gelu) {
    const branch::Raw by_hand;
    context->save_for_backward({z, weight, bias, mean, rstd});
    context->saved_data["gelu"] = gelu;
    return batch_norm_gelu(z, weight, bias, mean, rstd, gelu);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const bool gelu = context->saved_data["gelu"].toBool();
    const auto &z = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3],
               &rstd = saved[4];
    if (torch::GradMode::is_enabled()) {
      const Tensor wide = z.to(torch::kFloat);
      const Tensor off = wide - wide.mean({0, 2, 3}, /*keepdim=*/true);
      const Tensor own = off.square().mean({0, 2, 3}, /*keepdim=*/true) +
                         (rstd.square().reciprocal() - off.detach().square().mean({0, 2, 3}))
                             .view({1, -1, 1, 1});  // plus eps
      const Tensor p = off * own.rsqrt() * weight.view({1, -1, 1, 1}) + bias.view({1, -1, 1, 1});
      auto result =
          plain_gradients({gelu ? torch::gelu(p) : p}, {z, weight, bias, {}, {}, {}}, {grads[0]});
      return result;
    }
    const branch::Raw by_hand;
    const Tensor grad = grads[0].to(z.scalar_type()).contiguous(torch::MemoryFormat::ChannelsLast);
    const auto found = batch_norm_gelu_gradients(grad, z, weight, bias, mean, rstd, gelu);
    return {found.z, found.weight, found.bias, Tensor(), Tensor(), Tensor()};
  }
};

bool applies(const torch::nn::BatchNorm2dImpl& norm, const Tensor& z) {
  const auto type = z.scalar_type();
  return norm.is_training() && torch::GradMode::is_enabled() && z.is_cpu() && z.numel() > 0 &&
         (type == torch::kFloat || type == torch::kBFloat16) &&
         norm.weight.scalar_type() == torch::kFloat && norm.options.momentum().has_value() &&
         z.is_contiguous(torch::MemoryFormat::ChannelsLast) &&
         (z.requires_grad() || norm.weight.requires_grad());
}

// As torch has it: the running variance is the unbiased one.
void update_running(torch::nn::BatchNorm2dImpl& norm, const Tensor& mean, const Tensor& variance,
                    int64_t rows) {
  const double momentum = *norm.options.momentum();
  const double unbiased = double(rows) / double(std::max<int64_t>(rows - 1, 1));
  norm.running_mean.lerp_(mean, momentum);
  norm.running_var.lerp_(variance * unbiased, momentum);
  norm.num_batches_tracked.add_(1);
}

// With the statistics of the rows of all processes that share the batch.
Tensor shared_norm(Group& group, torch::nn::BatchNorm2dImpl& norm, const Tensor& z) {
  BatchMoments moments;
  const Tensor p = synced_batch_norm(group, z, norm.weight, norm.bias, norm.options.eps(), moments);
  const torch::NoGradGuard no_grad;
  update_running(norm, moments.mean, moments.variance, moments.rows);
  return p;
}

}  // namespace

Tensor norm_gelu(torch::nn::BatchNorm2dImpl& norm, const Tensor& z, bool gelu) {
  Group* group = BatchNormScope::group();
  if (group != nullptr && norm.is_training()) {
    const Tensor p = shared_norm(*group, norm, z);
    return gelu ? torch::gelu(p) : p;
  }
  if (!applies(norm, z)) {
    const Tensor p = norm.forward(z);
    return gelu ? torch::gelu(p) : p;
  }
  Tensor mean, rstd;
  {
    const torch::NoGradGuard no_grad;
    const branch::Raw by_hand;
    const auto [center, variance] = column_moments(z);
    update_running(norm, center, variance, z.numel() / z.size(1));
    mean = center;
    rstd = (variance + norm.options.eps()).rsqrt();
  }
  return NormGelu::apply(z, norm.weight, norm.bias, mean, rstd, gelu);
}

}  // namespace tost
