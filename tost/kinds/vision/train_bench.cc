#include "tost/kinds/vision/train_bench.h"

#include <cmath>
#include <utility>

#include "tost/base/error.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/nn/precision.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

using torch::Tensor;

class PlainMixer : public TokenMixer {
 public:
  explicit PlainMixer(const TssaMixer& source) : source_(source) {}
  Tensor forward(const Tensor& x, const MixerCall&) override {
    const auto [y, pi] = tssa_plain(source_.qkv->forward(x), source_.temp);
    return source_.maps().out->forward(y);
  }

 private:
  const TssaMixer& source_;
};

class VisionBench : public TrainBenchModel {
 public:
  VisionBench(const VisionConfig& config, int64_t batch, int64_t side)
      : model_(std::dynamic_pointer_cast<VisionTransformer>(make_image_classifier(config))) {
    if (model_ == nullptr) fail_usage("Only networks with a token mixer have training steps here.");
    images_ = torch::randn({batch, config.in_channels, side, side});
    labels_ = torch::randint(0, config.classes, {batch}, torch::kLong);
    for (const auto& module : *model_->blocks) {
      auto* block = module->as<Block>();
      blocks_.push_back(block);
      const auto* tssa = block->attn->as<TssaMixer>();
      other_.push_back(tssa != nullptr ? std::make_shared<PlainMixer>(*tssa) : block->attn);
    }
  }

  torch::nn::Module& module() override { return *model_; }
  DecayGroups decay_groups() const override { return vision_decay_groups(*model_); }
  int64_t samples() const override { return images_.size(0); }
  void move_to(torch::Device device) override {
    model_->to(device);
    images_ = images_.to(device);
    labels_ = labels_.to(device);
  }
  std::vector<StepProduct> products() const override;

  Tensor loss() override { return torch::cross_entropy_loss(model_->forward(images_), labels_); }
  Tensor plain_loss() override {
    swap();
    struct SwapBack {
      VisionBench& bench;
      ~SwapBack() { bench.swap(); }
    } const swap_back{*this};
    return loss();
  }
  void check(const std::string& precision) override {
    const torch::NoGradGuard no_grad;
    const PrecisionScope scope(precision, images_.device());
    const double found = loss().item<double>(), wanted = plain_loss().item<double>();
    const double allowed = (precision == "bf16" ? 2e-2 : 1e-4) * std::abs(wanted);
    if (!(std::abs(found - wanted) <= allowed)) {
      fail_data("The model's loss is ", found, " but ", wanted,
                " with the plain form; please report this with the output of `tost info`.");
    }
  }

 private:
  void swap() {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      std::swap(blocks_[i]->attn, other_[i]);
      blocks_[i]->branches = !blocks_[i]->branches;
    }
  }

  std::shared_ptr<VisionTransformer> model_;
  Tensor images_, labels_;
  std::vector<Block*> blocks_;
  std::vector<std::shared_ptr<TokenMixer>> other_;  // the mixers that are not in use
};

std::vector<StepProduct> VisionBench::products() const {
  const VisionConfig& config = model_->config();
  const int64_t batch = samples();
  std::vector<StepProduct> found;
  int64_t side = images_.size(2);
  for (const auto& module : model_->patch_embed->modules(/*include_self=*/false)) {
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    if (conv == nullptr) continue;
    const int64_t stride = conv->options.stride()->at(0);
    side /= stride;
    found.push_back({.rows = batch * side * side,
                     .in = conv->weight.size(1),
                     .out = conv->weight.size(0),
                     .kernel = conv->weight.size(2),
                     .stride = stride,
                     .batch = batch,
                     .side = side,
                     .input_gradient = !found.empty()});
  }
  const int64_t tokens = batch * side * side;
  const auto add = [&](int64_t rows, int64_t out, int64_t in) {
    found.push_back({.rows = rows, .in = in, .out = out});
  };
  for (const Block* block : blocks_) {
    for (const auto& inner : const_cast<Block*>(block)->modules(/*include_self=*/false)) {
      const auto* linear = inner->as<Linear>();
      if (linear != nullptr) add(tokens, linear->weight.size(0), linear->weight.size(1));
    }
  }
  // Of a class-attention block only keys and values of the patches are large.
  for (int64_t i = 0; i < config.class_blocks; ++i) add(tokens, 2 * config.dim, config.dim);
  add(batch, config.classes, config.dim);
  return found;
}

}  // namespace

void check_plain_vision(const VisionConfig& config) {
  if (config.mixer == "tssa" && config.architecture != "linear") return;
  fail_usage("There is a plain form of the mixer 'tssa' alone, not of '", config.mixer,
             "'; leave it out with --no-plain.");
}

std::unique_ptr<TrainBenchModel> make_bench_model(const VisionConfig& config, int64_t batch,
                                                  int64_t side) {
  VisionConfig every_branch = config;
  every_branch.drop_path = 0;
  return std::make_unique<VisionBench>(every_branch, batch, side);
}

}  // namespace tost
