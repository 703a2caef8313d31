#include "tost/kinds/vision/patch_stem.h"

#include <string>

#include "tost/kinds/vision/norm_gelu.h"

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

}  // namespace tost
