#include "tost/kinds/vision/image_classifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/engine/vision_weights.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/transformer.h"
#include "tost/nn/decay_groups.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

// As `preset`, but with the fewest blocks and the smallest picture that still has several tokens.
VisionConfig shrunk(const std::string& preset) {
  auto config = vision_preset(preset);
  config.depth = 2;
  config.layer_scale = 0.5;
  config.drop_path = 0;
  config.image_size = 3 * config.patch;
  config.classes = 5;
  return config;
}

torch::Tensor images_for(const VisionConfig& config, int64_t batch = 2) {
  return torch::randn({batch, config.in_channels, config.image_size, config.image_size});
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

class EveryPreset : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPreset, ForwardIsFiniteWithEveryMixerInFloatAndAutocast) {
  for (const auto& mixer : mixer_names()) {
    auto config = shrunk(GetParam());
    config.mixer = mixer;
    config.depth = 1;
    const auto model = make_image_classifier(config);
    const torch::NoGradGuard no_grad;
    for (const bool autocast : {false, true}) {
      const testing::Bfloat16Autocast scope(autocast);
      const auto logits = model->forward(images_for(config));
      EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 5})) << mixer;
      EXPECT_TRUE(logits.isfinite().all().item<bool>()) << mixer << " autocast " << autocast;
    }
  }
}

TEST_P(EveryPreset, GradientReachesEveryParameter) {
  torch::manual_seed(1);
  const auto config = shrunk(GetParam());
  const auto model = make_image_classifier(config);
  auto target = torch::tensor({1, 3}, torch::kInt64);
  torch::cross_entropy_loss(model->forward(images_for(config)), target).backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(SlowRegistry, EveryPreset, ::testing::ValuesIn(vision_preset_names()),
                         test_name);

TEST(ImageClassifierInit, FollowsTheOfficialCode) {
  torch::manual_seed(2);
  const auto model = make_image_classifier(shrunk("tost_cab_small_12_p16"));
  auto p = state_dict(*model);
  EXPECT_NEAR(p.at("blocks.0.mlp.fc1.weight").std().item<float>(), 0.02, 4e-4);
  EXPECT_NEAR(p.at("blocks.1.attn.to_out.0.weight").mean().item<float>(), 0, 4e-4);
  EXPECT_NEAR(p.at("cls_token").std().item<float>(), 0.02, 4e-3);
  EXPECT_EQ(p.at("head.bias").abs().max().item<float>(), 0);
  EXPECT_TRUE(torch::equal(p.at("blocks.0.attn.temp"), torch::ones({8, 1})));
  EXPECT_TRUE(torch::equal(p.at("cls_attn_blocks.1.gamma2"), torch::full({384}, 0.5)));
  // Convolutions keep torch's Kaiming-uniform: bound 1 / sqrt(fan in).
  const auto conv = p.at("patch_embed.proj.0.0.weight");
  EXPECT_LE(conv.abs().max().item<float>(), 1 / std::sqrt(27.0) + 1e-6);
  EXPECT_GT(conv.abs().max().item<float>(), 0.9 / std::sqrt(27.0));
}

TEST(ImageClassifierInit, SameSeedSameWeights) {
  const auto make = [] {
    torch::manual_seed(9);
    return state_dict(*make_image_classifier(shrunk("tost_nano_p4")));
  };
  const auto a = make(), b = make();
  for (const auto& [name, tensor] : a) EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
}

TEST(ImageClassifierForward, TracingChangesNothingAndSeesEveryBlock) {
  const auto config = shrunk("tost_nano_p4");
  const auto model = make_image_classifier(config);
  model->eval();
  const auto images = images_for(config);
  VisionTrace trace;
  EXPECT_TRUE(torch::equal(model->forward_traced(images, trace), model->forward(images)));
  EXPECT_EQ(trace.rows, 3);
  ASSERT_EQ(trace.blocks.size(), 2u);
  ASSERT_EQ(trace.class_attention.size(), 2u);
  EXPECT_EQ(trace.blocks[1].output.sizes(), torch::IntArrayRef({2, 9, 64}));
  EXPECT_EQ(trace.class_attention[0].sizes(), torch::IntArrayRef({2, 4, 10}));
  EXPECT_TRUE(torch::allclose(trace.class_attention[1].sum(2), torch::ones({2, 4})));
}

TEST(ImageClassifierForward, OneChannelAndRectanglesWork) {
  for (const std::string name : {"tost_nano_p4", "xcit_nano_p2", "vit_micro_p4"}) {
    auto config = shrunk(name);
    config.in_channels = 1;
    const auto model = make_image_classifier(config);
    const auto logits = model->forward(torch::randn({2, 1, 4 * config.patch, 7 * config.patch}));
    EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 5})) << name;
  }
}

TEST(ImageClassifierForward, EvaluationTreatsImagesAlone) {
  const auto config = shrunk("tost_nano_p4");
  const auto model = make_image_classifier(config);
  model->eval();
  const auto images = images_for(config, 3);
  EXPECT_TRUE(torch::allclose(model->forward(images)[2], model->forward(images.narrow(0, 2, 1))[0],
                              1e-4, 1e-5));
}

TEST(ImageClassifierForward, TrainsAfterAnInferencePass) {
  const auto config = shrunk("tost_nano_p4");
  const auto model = make_image_classifier(config);
  {
    const c10::InferenceMode inference;
    model->forward(images_for(config));
  }
  EXPECT_NO_THROW(model->forward(images_for(config)).sum().backward());
}

TEST(ImageClassifierForward, TrainingMovesBatchNormStatisticsAndEvaluationDoesNot) {
  const auto config = shrunk("tost_nano_p4");
  const auto model = make_image_classifier(config);
  const auto state = state_dict(*model);
  const auto mean = state.at("patch_embed.proj.0.1.running_mean");
  model->forward(images_for(config));
  const auto after = mean.clone();
  EXPECT_GT(after.abs().max().item<float>(), 0);
  EXPECT_EQ(state.at("patch_embed.proj.0.1.num_batches_tracked").item<int64_t>(), 1);
  model->eval();
  model->forward(images_for(config));
  EXPECT_TRUE(torch::equal(mean, after));
}

TEST(ImageClassifierForward, StochasticDepthActsInTrainingOnlyAndFollowsTheSeed) {
  auto config = shrunk("tost_nano_p4");
  config.drop_path = 0.5;
  const auto model = make_image_classifier(config);
  const auto images = images_for(config);
  const auto run = [&](uint64_t seed) {
    torch::manual_seed(seed);
    return model->forward(images);
  };
  EXPECT_TRUE(torch::equal(run(1), run(1)));
  EXPECT_FALSE(torch::equal(run(1), run(2)));
  model->eval();
  EXPECT_TRUE(torch::equal(run(1), run(2)));
}

class Registers : public ::testing::Test {
 protected:
  // A model with `count` registers, its blocks' mixer as named.
  static std::shared_ptr<ImageClassifier> make(int64_t count, const std::string& mixer) {
    torch::manual_seed(8);
    auto config = shrunk("tost_nano_p4");
    config.registers = count;
    config.mixer = mixer;
    auto model = make_image_classifier(config);
    model->eval();
    return model;
  }
};

TEST_F(Registers, AddTheirNumbersWorkAndState) {
  const auto with = make(3, "tssa"), without = make(0, "tssa");
  EXPECT_EQ(parameter_count(*with), parameter_count(*without) + 3 * 64);
  const auto state = state_dict(*with);
  EXPECT_EQ(state.at("registers").sizes(), torch::IntArrayRef({1, 3, 64}));
  EXPECT_NEAR(state.at("registers").std().item<float>(), 0.02, 4e-3);
  EXPECT_FALSE(state_dict(*without).contains("registers"));
  const auto decay = vision_decay_groups(*with);
  EXPECT_EQ(std::count(decay.exempt.names.begin(), decay.exempt.names.end(), "registers"), 1);
  // One more token is one more in the mixer and in the MLP of each of the two blocks.
  const auto cost = [](const auto& model) { return vision_multiply_adds(model->config(), 12, 12); };
  EXPECT_EQ(cost(with) - cost(without), 3 * 2 * (2 * 64 * 64 + 64 + 8 * 64 * 64));
}

TEST_F(Registers, FollowThePatchesInEveryBlockAndNotInClassAttention) {
  const auto model = make(3, "tssa");
  const auto images = images_for(model->config());
  VisionTrace trace;
  EXPECT_TRUE(torch::equal(model->forward_traced(images, trace), model->forward(images)));
  EXPECT_EQ(trace.registers, 3);
  EXPECT_EQ(trace.stem_output.sizes(), torch::IntArrayRef({2, 9, 64}));
  EXPECT_EQ(trace.blocks[0].mixer.pi.sizes(), torch::IntArrayRef({2, 4, 12}));
  EXPECT_EQ(trace.blocks[1].output.sizes(), torch::IntArrayRef({2, 12, 64}));
  EXPECT_EQ(trace.class_attention[0].sizes(), torch::IntArrayRef({2, 4, 10}));
  const auto normalised = [](const torch::Tensor& x) {
    return torch::layer_norm(x, {64}, {}, {}, 1e-6);
  };
  const auto registers = state_dict(*model).at("registers").expand({2, 3, 64});
  EXPECT_TRUE(torch::allclose(trace.blocks[0].mixer_input.narrow(1, 0, 9),
                              normalised(trace.stem_output), 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(trace.blocks[0].mixer_input.narrow(1, 9, 3), normalised(registers),
                              1e-4, 1e-5));
}

TEST_F(Registers, ReachTheLogitsOnlyThroughTheMixers) {
  for (const std::string mixer : {"tssa", "none"}) {
    const auto model = make(2, mixer);
    const auto images = images_for(model->config());
    const torch::NoGradGuard no_grad;
    const auto before = model->forward(images);
    state_dict(*model).at("registers").normal_();
    EXPECT_EQ(torch::equal(model->forward(images), before), mixer == "none") << mixer;
  }
}

TEST_F(Registers, GetGradients) {
  const auto model = make(2, "softmax");
  model->forward(images_for(model->config())).square().sum().backward();
  EXPECT_GT(model->named_parameters()["registers"].grad().abs().min().item<float>(), 0);
}

TEST(ImageClassifierErrors, ImagesThatDoNotFitAreDataErrors) {
  const auto model = make_image_classifier(shrunk("tost_nano_p4"));
  const auto linear = make_image_classifier(shrunk("linear"));
  const auto refused = [](const std::shared_ptr<ImageClassifier>& m, const torch::Tensor& images) {
    try {
      m->forward(images);
      ADD_FAILURE() << "accepted " << images.sizes();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  };
  refused(model, torch::zeros({1, 3, 13, 12}));
  refused(model, torch::zeros({1, 1, 12, 12}));
  refused(model, torch::zeros({3, 12, 12}));
  refused(model, torch::zeros({0, 3, 12, 12}));
  refused(model, torch::zeros({1, 3, 0, 12}));
  refused(model, torch::zeros({1, 3, 12, 12}, torch::kUInt8));
  refused(linear, torch::zeros({1, 3, 12, 12}));
}

TEST(StochasticDepth, KeepsTheMeanAndDropsWholeSamples) {
  torch::manual_seed(4);
  const auto x = torch::zeros({4000, 2, 3}), branch = torch::ones({4000, 2, 3});
  const auto y = add_scaled(x, torch::ones({3}), branch, 0.2);
  EXPECT_NEAR(y.mean().item<float>(), 1, 0.03);
  const auto low = y.amin({1, 2}), high = y.amax({1, 2});
  EXPECT_TRUE(torch::equal(low, high));
  EXPECT_TRUE(((low == 0) | (low - 1.25).abs().lt(1e-6)).all().item<bool>());
}

TEST(ClassAttentionQuirk, PatchTokensFollowTheIdentityOfTheOfficialCode) {
  torch::manual_seed(7);
  for (const bool tokens_norm : {true, false}) {
    ClassAttentionBlock block({.dim = 16, .mlp_hidden = 64, .layer_scale = 0.7}, 4, true,
                              tokens_norm);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : block.parameters()) parameter.normal_(0, 0.5);
    const auto cls = torch::randn({2, 1, 16}), x = torch::randn({2, 9, 16});
    const auto mixed = x + block.gamma1 * block.norm1->forward(x);
    const auto wanted = 2 * (tokens_norm ? block.norm2->forward(mixed) : mixed);
    const auto found = block.forward({cls, x}, /*last=*/false);
    EXPECT_TRUE(torch::allclose(found.tokens, wanted, 1e-5, 1e-6));
    const auto last = block.forward({cls, x}, /*last=*/true);
    EXPECT_FALSE(last.tokens.defined());
    EXPECT_TRUE(torch::equal(last.cls, found.cls));
  }
}

TEST(FourierTable, HoldsTheStatedCode) {
  const auto table = tensor_of(position_code(3, 5));
  ASSERT_EQ(table.sizes(), torch::IntArrayRef({15, 64}));
  const double two_pi = 2 * M_PI;
  for (const auto& [row, column] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {2, 4}, {1, 3}}) {
    for (const int64_t i : {0, 1, 15}) {
      const double period = std::pow(1e4, i / 16.0);
      const double y = (row + 1) * two_pi / (3 + 1e-6) / period,
                   x = (column + 1) * two_pi / (5 + 1e-6) / period;
      const auto code = table[row * 5 + column];
      EXPECT_NEAR(code[2 * i].item<double>(), std::sin(y), 1e-6);
      EXPECT_NEAR(code[2 * i + 1].item<double>(), std::cos(y), 1e-6);
      EXPECT_NEAR(code[32 + 2 * i].item<double>(), std::sin(x), 1e-6);
      EXPECT_NEAR(code[33 + 2 * i].item<double>(), std::cos(x), 1e-6);
    }
  }
}

}  // namespace
}  // namespace tost
