#include "tost/kinds/vision/patch_stem.h"

#include <algorithm>
#include <string>

#include "tost/base/error.h"
#include "tost/comm/batch_norms.h"

namespace tost {
namespace {

using torch::Tensor;

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

Tensor batch_normed(torch::nn::BatchNorm2dImpl& norm, const Tensor& z) {
  Group* group = BatchNormScope::group();
  if (group != nullptr && norm.is_training()) return shared_norm(*group, norm, z);
  if (norm.is_training() && z.numel() == z.size(1)) {
    fail_usage("One picture of one patch has no variance that batch norm could learn from; ",
               "give a larger batch or larger pictures.");
  }
  return norm.forward(z);
}

}  // namespace

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
    x = batch_normed(*stages_[i].norm, x.contiguous(torch::MemoryFormat::ChannelsLast));
    if (i + 1 < stages_.size()) x = torch::gelu(x);
  }
  return x.permute({0, 2, 3, 1}).contiguous();
}

}  // namespace tost
