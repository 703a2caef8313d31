#include "tost/nn/state_dict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tost/base/error.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/decay_groups.h"

namespace tost {
namespace {

std::shared_ptr<ImageClassifier> nano(uint64_t seed) {
  torch::manual_seed(seed);
  return make_image_classifier(vision_preset("tost_nano_p4"));
}

StateDict cloned(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, tensor] : state) copy[name] = tensor.clone();
  return copy;
}

std::string load_error(torch::nn::Module& model, const StateDict& state) {
  const auto before = cloned(state_dict(model));
  try {
    load_state_dict(model, state);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    for (const auto& [name, tensor] : state_dict(model)) {
      EXPECT_TRUE(torch::equal(tensor, before.at(name))) << name << " changed by a refused load";
    }
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(StateDict, LoadsIntoAnotherModelBitForBit) {
  auto from = nano(1), to = nano(2);
  load_state_dict(*to, cloned(state_dict(*from)));
  const auto a = state_dict(*from), b = state_dict(*to);
  for (const auto& [name, tensor] : a) EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
  to->eval(), from->eval();
  const auto images = torch::randn({1, 3, 32, 32});
  EXPECT_TRUE(torch::equal(from->forward(images), to->forward(images)));
}

TEST(StateDict, HoldsBuffersAndOfficialNames) {
  const auto state = state_dict(*nano(1));
  for (const char* name :
       {"cls_token", "patch_embed.proj.2.1.running_var", "patch_embed.proj.0.1.num_batches_tracked",
        "pos_embeder.token_projection.weight", "blocks.5.attn.to_out.0.bias", "blocks.0.attn.temp",
        "cls_attn_blocks.1.attn.proj.weight", "norm.weight", "head.bias"}) {
    EXPECT_TRUE(state.count(name)) << name;
  }
}

TEST(StateDict, ConvertsFloatingTypes) {
  auto from = nano(1), to = nano(2);
  auto state = cloned(state_dict(*from));
  for (auto& [name, tensor] : state) {
    if (tensor.is_floating_point()) tensor = tensor.to(torch::kBFloat16);
  }
  load_state_dict(*to, state);
  EXPECT_EQ(to->parameters()[0].scalar_type(), torch::kFloat32);
}

TEST(StateDict, RefusalsNameTheTensorAndBothShapes) {
  auto model = nano(1);
  const auto good = cloned(state_dict(*nano(2)));
  auto state = good;
  state["head.weight"] = torch::zeros({100, 64});
  auto text = load_error(*model, state);
  for (const char* part : {"head.weight", "[100, 64]", "[10, 64]"}) {
    EXPECT_NE(text.find(part), text.npos) << text;
  }
  state = good;
  state.erase("blocks.3.attn.temp");
  EXPECT_NE((text = load_error(*model, state)).find("'blocks.3.attn.temp'"), text.npos) << text;
  state = good;
  state["head.wieght"] = torch::zeros({1});
  EXPECT_NE((text = load_error(*model, state)).find("'head.weight'"), text.npos) << text;
  state = good;
  state["norm.bias"] = torch::zeros({64}, torch::kInt64);
  EXPECT_NE((text = load_error(*model, state)).find("norm.bias"), text.npos) << text;
  state = good;
  state["norm.bias"] = torch::Tensor();
  load_error(*model, state);
  load_error(*model, {});
}

TEST(DecayGroups, FollowTheOfficialRuleAndCoverEveryParameterOnce) {
  for (const char* preset : {"tost_nano_p4", "xcit_nano_p4", "vit_nano_p4", "linear"}) {
    const auto model = make_image_classifier(vision_preset(preset));
    const auto groups = vision_decay_groups(*model);
    const auto total = model->named_parameters().size();
    EXPECT_EQ(groups.decayed.names.size() + groups.exempt.names.size(), total) << preset;
    ASSERT_EQ(groups.decayed.names.size(), groups.decayed.params.size());
    for (const auto& p : groups.decayed.params) EXPECT_GE(p.dim(), 2);
    for (size_t i = 0; i < groups.exempt.names.size(); ++i) {
      EXPECT_TRUE(groups.exempt.params[i].dim() == 1 || groups.exempt.names[i] == "cls_token");
    }
  }
  const auto model = nano(1);
  const auto groups = vision_decay_groups(*model);
  const auto has = [](const DecayGroup& group, const std::string& name) {
    return std::count(group.names.begin(), group.names.end(), name) == 1;
  };
  EXPECT_TRUE(has(groups.decayed, "blocks.0.attn.temp"));
  EXPECT_TRUE(has(groups.exempt, "cls_token"));
  EXPECT_TRUE(has(groups.exempt, "blocks.0.gamma1"));
  EXPECT_TRUE(has(groups.exempt, "patch_embed.proj.0.1.weight"));
}

TEST(DecayGroups, FrozenParametersAreInNeither) {
  const auto model = nano(1);
  for (auto& parameter : model->parameters()) parameter.set_requires_grad(false);
  EXPECT_TRUE(vision_decay_groups(*model).decayed.params.empty());
  EXPECT_TRUE(vision_decay_groups(*model).exempt.params.empty());
}

}  // namespace
}  // namespace tost
