#include "tost/kinds/language/explain_trace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/shared.h"
#include "tost/kinds/language/eval_test_util.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor ids_of(int64_t count) {
  return torch::tensor(testing::some_ids(count)).unsqueeze(0);
}

double difference(const Tensor& a, const Tensor& b) {
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

TEST(TextTrace, LossesAreThoseOfSinglePredictions) {
  const auto model = testing::tiny_model("tssa", "learned");
  const auto ids = testing::some_ids(9);
  const auto trace = trace_text(*model, torch::tensor(ids).unsqueeze(0));
  ASSERT_EQ(trace.loss.sizes(), (std::vector<int64_t>{1, 8}));
  for (size_t t = 1; t < ids.size(); ++t) {
    const auto p = testing::log_probabilities(*model, {ids.begin(), ids.begin() + int64_t(t)});
    const auto place = int64_t(t) - 1;
    EXPECT_NEAR(trace.loss[0][place].item<double>(), -p[ids[t]].item<double>(), 1e-5);
    EXPECT_EQ(trace.guess[0][place].item<int64_t>(), p.argmax().item<int64_t>());
    EXPECT_EQ(trace.likely[0][place].item<bool>(), p.argmax().item<int64_t>() == ids[t]);
  }
}

TEST(TextTrace, EntropyAndOwnEffectByTheirDefinitions) {
  const auto model = testing::tiny_model("tssa", "none");
  const auto ids = ids_of(10);
  const auto trace = trace_text(*model, ids);
  ASSERT_EQ(trace.layers.size(), 2u);
  Tensor x = model->named_parameters()["transformer.wte.weight"].index_select(0, ids[0]);
  const auto blocks = blocks_of(*model);
  ASSERT_EQ(blocks.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const torch::NoGradGuard no_grad;
    const auto& layer = trace.layers[i];
    EXPECT_EQ(layer.mixer, "tssa");
    EXPECT_FALSE(layer.uniform || layer.gate.defined());
    EXPECT_LE(difference(layer.pi.sum(1), torch::ones({1, 10})), 1e-6);
    for (int64_t t = 0; t < 10; ++t) {
      const double p = layer.pi[0][0][t].item<double>(), q = 1 - p;
      const auto part = [](double v) { return v > 0 ? -v * std::log2(v) : 0.0; };
      EXPECT_NEAR(layer.entropy[0][t].item<double>(), part(p) + part(q), 1e-5);
    }
    const auto mixed = blocks[i]->attn->forward(blocks[i]->norm1->forward(x.unsqueeze(0)), {})[0];
    const auto added = mixed * blocks[i]->gamma1;
    EXPECT_LE(difference(layer.effect[0], added.norm(2, 1) / x.norm(2, 1)), 1e-4);
    x = blocks[i]->forward(x.unsqueeze(0))[0];
    EXPECT_LE(difference(layer.norm[0], x.norm(2, 1)), 1e-4);
  }
}

TEST(TextTrace, MixersWithoutMembershipsGatesOrMemory) {
  for (const char* mixer : {"softmax", "linear", "none"}) {
    const auto trace = trace_text(*testing::tiny_model(mixer, "none"), ids_of(5));
    EXPECT_FALSE(trace.layers[0].pi.defined()) << mixer;
    EXPECT_TRUE(trace.layers[0].effect.defined()) << mixer;
  }
  const auto uniform = testing::tiny_model("uniform", "none");
  const auto layer = trace_text(*uniform, ids_of(5)).layers[0];
  EXPECT_TRUE(layer.uniform);
  EXPECT_LE(difference(layer.entropy, torch::ones({1, 5})), 1e-6);
  EXPECT_FALSE(memory_horizon(*blocks_of(*uniform)[0]->attn).defined());
}

TEST(TextTrace, GatesAndHorizons) {
  torch::manual_seed(2);
  auto config = language_preset("tost_means_char");
  config.vocab = 20;
  config.dim = 16;
  config.depth = 2;
  const auto model = make_language_model(config);
  ASSERT_TRUE(config.options.gate);
  const auto layer = trace_text(*model, torch::arange(12).unsqueeze(0)).layers[0];
  ASSERT_EQ(layer.gate.sizes(), (std::vector<int64_t>{1, config.heads, 12}));
  // silu of small numbers is near half of them: far from 1, and not constant.
  EXPECT_LT(layer.gate.abs().max().item<double>(), 0.5);
  EXPECT_GT(layer.gate.std().item<double>(), 0);
  const auto horizon = memory_horizon(*blocks_of(*model)[0]->attn);
  ASSERT_EQ(horizon.size(0), config.heads);
  EXPECT_NEAR(horizon[0].item<double>(), 2, 1e-4);
  EXPECT_NEAR(horizon[config.heads - 1].item<double>(), 256, 0.1);
}

// The means token by token, from the projections.
TEST(TextTrace, GroupMeansByTheirDefinition) {
  for (const std::string mixer : {"means", "tssa"}) {
    torch::manual_seed(2);
    auto config = language_preset("tost_means_char");
    config.vocab = 20;
    config.dim = 16;
    config.depth = 1;
    config.heads = 2;
    config.mixer = mixer;
    if (mixer == "tssa") config.options.means = "tokens";
    const auto model = make_language_model(config);
    const torch::NoGradGuard no_grad;
    LanguageTrace inside;
    const auto layer = trace_text(*model, torch::arange(12).unsqueeze(0), &inside).layers[0];
    const auto attn = blocks_of(*model)[0]->attn;
    const auto* of_means = dynamic_cast<const CausalMeansMixer*>(attn.get());
    const auto x = blocks_of(*model)[0]->norm1->forward(
        model->named_parameters()["transformer.wte.weight"].narrow(0, 0, 12).unsqueeze(0));
    const auto values =
        (of_means ? of_means->c_attn->forward(x).split(16, -1)[1] : inside.blocks[0].mixer.w)
            .view({12, 2, 8});
    const auto keep = (1 - 1 / memory_horizon(*attn)).to(torch::kFloat);
    const auto pi = layer.pi[0].to(torch::kFloat) * 2;
    ASSERT_EQ(layer.mean_norm.sizes(), (std::vector<int64_t>{1, 2, 12}));
    for (int64_t h = 0; h < 2; ++h) {
      Tensor sum = torch::zeros({8});
      double weight = 0;
      for (int64_t t = 0; t < 12; ++t) {
        const double p = pi[h][t].item<double>(), gamma = keep[h].item<double>();
        sum = sum * gamma + values[t][h] * p;
        weight = weight * gamma + p * p;
        const auto mean = sum / std::sqrt(weight + 1e-6);  // the scale starts at 1
        EXPECT_NEAR(layer.mean_norm[0][h][t].item<double>(), mean.norm().item<double>(), 1e-4);
        const double cosine = torch::dot(mean, values[t][h]).item<double>() /
                              (mean.norm() * values[t][h].norm()).item<double>();
        EXPECT_NEAR(layer.mean_cosine[0][h][t].item<double>(), cosine, 1e-4);
        if (t == 0) {
          EXPECT_NEAR(cosine, 1, 1e-6);
        }
      }
    }
  }
  EXPECT_FALSE(
      trace_text(*testing::tiny_model("tssa", "none"), ids_of(5)).layers[0].mean_norm.defined());
}

TEST(TextTrace, OneTokenOneHeadAndNotANumber) {
  const auto model = testing::tiny_model("tssa", "learned");
  const auto one = trace_text(*model, ids_of(1));
  EXPECT_EQ(one.loss.numel(), 0);
  EXPECT_EQ(one.layers[0].pi.size(2), 1);
  {
    const torch::NoGradGuard no_grad;
    model->parameters()[0].fill_(std::nan(""));
  }
  const auto broken = trace_text(*model, ids_of(3));
  EXPECT_TRUE(broken.loss.isnan().all().item<bool>());
}

TEST(TextTrace, HybridsNameEachBlock) {
  LanguageConfig config;
  config.mixer = "tssa";
  config.hybrid_every = 2;
  EXPECT_EQ(mixer_of_block(config, 0), "tssa");
  EXPECT_EQ(mixer_of_block(config, 1), "softmax");
  EXPECT_EQ(mixer_of_block(config, 2), "tssa");
  EXPECT_TRUE(descends_on_bound(config, 0));
  EXPECT_FALSE(descends_on_bound(config, 1));
  config.options.decay = "fixed";
  EXPECT_TRUE(descends_on_bound(config, 0));
  config.options.conv = 4;
  EXPECT_FALSE(descends_on_bound(config, 0));
  EXPECT_FALSE(descends_on_bound(language_preset("tost_means_char"), 0));
}

// The official block's input and weights, and the formula in float64.
Tensor membership_by_formula(const Block& block, const Tensor& x, int64_t heads) {
  const auto named = block.named_parameters();
  const auto wide = [&](const char* name) { return named[name].to(torch::kDouble); };
  const Tensor z = torch::layer_norm(x.to(torch::kDouble), {x.size(2)}, wide("ln_1.weight"));
  const Tensor w = z.matmul(wide("attn.c_attn.weight").t());
  const Tensor q = w.square().view({x.size(0), x.size(1), heads, -1});
  const Tensor share = q / q.cumsum(1).clamp_min(1e-12);
  const Tensor bias = wide("attn.denom_bias").squeeze(2).t().slice(0, 0, x.size(1)).unsqueeze(2);
  return ((share + bias).sum(3) * wide("attn.temp").squeeze(1)).softmax(2).transpose(1, 2);
}

TEST(TextTrace, MembershipsAreThoseOfTheOfficialModel) {
  TOST_SHARED_OR_SKIP(folder, "parity/lang_tssa");
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  LanguageConfig config;
  config.vocab = 131;
  config.block = 96;
  config.dim = 32;
  config.depth = 2;
  config.heads = 4;
  const auto model = make_language_model(config, WeightInit::kNone);
  load_state_dict(*model, load_safetensors(folder / "state.safetensors").tensors);
  const auto trace = trace_text(*model, expected.at("idx"));
  const auto pi =
      membership_by_formula(*blocks_of(*model)[1], expected.at("block.0.output"), config.heads);
  EXPECT_LE(difference(trace.layers[1].pi, pi), 1e-5);
  EXPECT_GT(pi.std().item<double>(), 0.01);
  EXPECT_LE(difference(trace.layers[1].norm, expected.at("block.1.output").norm(2, 2)), 1e-3);
  EXPECT_NEAR(trace.loss.size(1), 95, 0);
}

}  // namespace
}  // namespace tost
