#include "tost/nn/layer_rates.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tost/kinds/language/model.h"
#include "tost/kinds/vision/config.h"
#include "tost/nn/block.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using torch::Tensor;

std::shared_ptr<ImageClassifier> vision_model(const std::string& mixer, bool bias = true) {
  torch::manual_seed(1);
  auto config = vision_preset("tost_nano_p4");
  config.mixer = mixer;
  config.depth = 3;
  config.image_size = 16;
  config.registers = 2;
  config.qkv_bias = bias;
  const auto model = make_image_classifier(config);
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) p.add_(torch::randn_like(p) * 0.1);
  model->to(torch::kDouble);
  model->eval();
  return model;
}

std::vector<LayerRates> vision_rates(const std::shared_ptr<ImageClassifier>& model,
                                     VisionTrace& trace) {
  const torch::NoGradGuard no_grad;
  model->forward_traced(torch::randn({4, 3, 16, 16}, torch::kDouble), trace);
  return layer_rates(*model, trace.blocks);
}

bool everywhere(const Tensor& condition) {
  return condition.all().item<bool>();
}

TEST(LayerRates, AreThoseOfTheTracedLayers) {
  for (const std::string mixer : {"tssa", "uniform", "tssa-tied"}) {
    const auto model = vision_model(mixer);
    VisionTrace trace;
    const auto layers = vision_rates(model, trace);
    ASSERT_EQ(layers.size(), 3u);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto& r = layers[i];
      const auto &w = trace.blocks[i].mixer.w, &pi = trace.blocks[i].mixer.pi;
      ASSERT_EQ(w.sizes(), torch::IntArrayRef({4, 18, 64}));
      EXPECT_TRUE(torch::equal(r.released.bound, compression_bound(w, pi, 1)));
      EXPECT_TRUE(torch::equal(r.theory.exact, head_compression_rate(w, pi, 6400)));
      EXPECT_TRUE(everywhere(r.released.bound > r.released.exact) &&
                  everywhere(r.released.exact > 0));
      EXPECT_TRUE(everywhere(r.theory.bound > r.theory.exact) &&
                  everywhere(r.theory.exact > r.released.exact));
      const double ceiling = 0.5 * 16 * std::log(101.0);
      EXPECT_TRUE(everywhere(r.compression_before < ceiling) &&
                  everywhere(r.compression_before > 0));
      // After the residual: the same norm and projection of the sum, written out.
      const auto& block = *blocks_of(*model)[i];
      const auto again = block.attn->project(block.norm1->forward(trace.blocks[i].mixed));
      EXPECT_TRUE(torch::allclose(r.compression_after,
                                  compression_bound(unit_heads(again, 4), pi, 1600), 1e-12, 0));
      EXPECT_FALSE(torch::allclose(r.compression_after, r.compression_before, 1e-6, 0));
      const auto objective = [&](const Tensor& z) {
        return compression_bound(project_heads(z, block.attn->subspaces()), pi, 1);
      };
      const auto &z = trace.blocks[i].mixer_input, &out = trace.blocks[i].mixer_output;
      EXPECT_TRUE(torch::equal(r.objective, objective(z)));
      EXPECT_TRUE(torch::equal(r.objective_stepped, objective(z + block.gamma1 * out)));
      EXPECT_TRUE(torch::equal(r.objective_unscaled, objective(z + out)));
    }
  }
}

TEST(LayerRates, TheTiedLayerLowersItsObjectiveAndWithoutBiasTheBoundIsIt) {
  const auto tied = vision_model("tssa-tied");
  VisionTrace trace;
  for (const auto& r : vision_rates(tied, trace)) {
    EXPECT_TRUE(everywhere(r.objective_unscaled < r.objective));
    EXPECT_TRUE(torch::allclose(r.objective, r.released.bound, 1e-10, 0));
  }
  for (const bool bias : {true, false}) {
    const auto released = vision_model("tssa", bias);
    const auto r = vision_rates(released, trace)[0];
    EXPECT_EQ(torch::allclose(r.objective, r.released.bound, 1e-10, 0), !bias);
  }
}

TEST(LayerRates, WhatIsNotWantedIsLeftOut) {
  const auto model = vision_model("tssa");
  VisionTrace trace;
  const auto all = vision_rates(model, trace)[1];
  const auto few = layer_rates(*model, trace.blocks,
                               {.released = false, .theory = false, .objective = false})[1];
  EXPECT_TRUE(few.defined());
  EXPECT_FALSE(few.released.exact.defined() || few.theory.bound.defined() ||
               few.objective.defined() || few.objective_stepped.defined());
  EXPECT_TRUE(torch::equal(few.compression_before, all.compression_before));
  EXPECT_TRUE(torch::equal(few.compression_after, all.compression_after));
  const auto released = layer_rates(*model, trace.blocks, {.theory = false, .objective = false})[1];
  EXPECT_TRUE(torch::equal(released.released.exact, all.released.exact));
  EXPECT_FALSE(released.theory.exact.defined());
}

TEST(LayerRates, LayersWithoutMembershipsHaveNone) {
  const auto model = vision_model("softmax");
  EXPECT_FALSE(has_layer_rates(*model));
  VisionTrace trace;
  const auto layers = vision_rates(model, trace);
  ASSERT_EQ(layers.size(), 3u);
  for (const auto& r : layers) EXPECT_FALSE(r.defined());
  EXPECT_EQ(to_json(layers), nlohmann::json::array());
}

TEST(LayerRates, LanguageModelsHaveThemWhereTheirMixersDo) {
  torch::manual_seed(2);
  LanguageConfig c;
  c.vocab = 11, c.block = 24, c.dim = 12, c.depth = 4, c.heads = 3;
  c.hybrid_every = 2;  // every other layer is softmax
  const auto model = make_language_model(c);
  model->eval();
  EXPECT_TRUE(has_layer_rates(*model));
  const torch::NoGradGuard no_grad;
  LanguageTrace trace;
  model->hidden(torch::randint(0, 11, {5, 24}, torch::kLong), nullptr, &trace);
  const auto layers = layer_rates(*model, trace.blocks);
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_FALSE(layers[1].defined());
  const auto& r = layers[2];
  EXPECT_EQ(r.objective.sizes(), torch::IntArrayRef({5}));
  EXPECT_TRUE(torch::equal(
      r.released.bound, compression_bound(trace.blocks[2].mixer.w, trace.blocks[2].mixer.pi, 1)));
  const auto list = to_json(layers);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["layer"], 3);
  EXPECT_NEAR(list[1]["gap"].get<double>(),
              (r.released.bound - r.released.exact).mean().item<double>(), 1e-15);
  EXPECT_EQ(list[1]["objective_stepped"].get<double>(), r.objective_stepped.mean().item<double>());
}

TEST(LayerRates, NamesTheMixersThatHaveThem) {
  EXPECT_EQ(mixers_with_rates(/*causal=*/false),
            (std::vector<std::string>{"tssa", "means", "tssa-tied", "uniform"}));
  EXPECT_EQ(mixers_with_rates(/*causal=*/true),
            (std::vector<std::string>{"tssa", "means", "uniform"}));
}

}  // namespace
}  // namespace tost
