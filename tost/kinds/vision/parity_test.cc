// The official code's numbers: outputs, memberships, loss, every gradient and one AdamW step.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <string>

#include "tests/testing/shared.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace vision_parity_test {

struct Fixture {
  const char* folder;
  const char* mixer;
  int64_t patch;
  bool qkv_bias;
};

void PrintTo(const Fixture& fixture, std::ostream* out) {
  *out << fixture.folder;
}

// The model of every fixture (see its README): width 32, two blocks, four heads, ten classes.
VisionConfig config_of(const Fixture& fixture) {
  VisionConfig c;
  c.mixer = fixture.mixer;
  c.patch = fixture.patch;
  c.image_size = 64;
  c.dim = 32;
  c.depth = 2;
  c.heads = 4;
  c.classes = 10;
  c.qkv_bias = fixture.qkv_bias;
  return c;
}

class VisionParity : public ::testing::TestWithParam<Fixture> {
 protected:
  void load() {
    const auto folder = testing::shared_path(std::string("parity/") + GetParam().folder);
    expected_ = load_safetensors(folder / "expected.safetensors").tensors;
    model_ = make_image_classifier(config_of(GetParam()), WeightInit::kNone);
    load_state_dict(*model_, load_safetensors(folder / "state.safetensors").tensors);
    model_->eval();
  }

  // Within 1e-5 of the largest absolute value; remembers the worst ratio.
  void expect_close(const torch::Tensor& found, const std::string& name) {
    ASSERT_TRUE(expected_.count(name)) << name;
    const auto& wanted = expected_.at(name);
    ASSERT_EQ(found.numel(), wanted.numel()) << name;
    const double scale = wanted.abs().max().item<double>();
    const double ratio =
        (found.detach().view_as(wanted) - wanted).abs().max().item<double>() / scale;
    EXPECT_LE(ratio, 1e-5) << name << ", largest absolute value " << scale;
    worst_ = std::max(worst_, ratio);
  }

  torch::Tensor backward() {
    auto loss =
        torch::cross_entropy_loss(model_->forward(expected_.at("input")), expected_.at("target"));
    loss.backward();
    return loss;
  }

  int64_t count_expected(const std::string& prefix) const {
    int64_t count = 0;
    for (const auto& [name, tensor] : expected_) count += name.rfind(prefix, 0) == 0;
    return count;
  }

  StateDict expected_;
  std::shared_ptr<ImageClassifier> model_;
  double worst_ = 0;
};

TEST_P(VisionParity, LogitsBlockOutputsAndMemberships) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  load();
  VisionTrace trace;
  expect_close(model_->forward_traced(expected_.at("input"), trace), "logits");
  expect_close(model_->forward(expected_.at("input")), "logits");
  ASSERT_EQ(count_expected("block."), GetParam().mixer == std::string("tssa") ? 4 : 2);
  for (int i = 0; i < 2; ++i) {
    const std::string block = "block." + std::to_string(i);
    expect_close(trace.blocks[i].output, block + ".output");
    if (expected_.count(block + ".membership")) {
      expect_close(trace.blocks[i].mixer.pi, block + ".membership");
    }
  }
  RecordProperty("worst_relative_to_largest", std::to_string(worst_));
}

TEST_P(VisionParity, LossAndEveryGradient) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  load();
  expect_close(backward(), "loss");
  const auto parameters = model_->named_parameters();
  ASSERT_EQ(count_expected("grad."), static_cast<int64_t>(parameters.size()));
  for (const auto& item : parameters) expect_close(item.value().grad(), "grad." + item.key());
  printf("%s: worst deviation %.2e of the largest value\n", GetParam().folder, worst_);
}

TEST_P(VisionParity, OneAdamwStep) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  load();
  backward();
  torch::optim::AdamW adamw(
      model_->parameters(),
      torch::optim::AdamWOptions(5e-4).betas({0.9, 0.999}).eps(1e-8).weight_decay(0.05));
  adamw.step();
  ASSERT_EQ(count_expected("after_adamw."), 3);
  const auto parameters = model_->named_parameters();
  for (const auto& [name, tensor] : expected_) {
    if (name.rfind("after_adamw.", 0) == 0) expect_close(parameters[name.substr(12)], name);
  }
}

INSTANTIATE_TEST_SUITE_P(Official, VisionParity,
                         ::testing::Values(Fixture{"vision_tssa_p16", "tssa", 16, false},
                                           Fixture{"vision_tssa_p8_rect", "tssa", 8, true},
                                           Fixture{"vision_xca_p16", "xca", 16, false},
                                           Fixture{"vision_softmax_p16", "softmax", 16, false}),
                         [](const auto& info) { return std::string(info.param.folder); });

}  // namespace vision_parity_test
}  // namespace tost
