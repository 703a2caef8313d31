#include "tost/nn/decay_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "tost/kinds/language/model.h"
#include "tost/kinds/sequence/classifier.h"

namespace tost {
namespace decay_groups_test {

LanguageConfig small(const std::string& mixer) {
  LanguageConfig c;
  c.vocab = 7, c.block = 8, c.dim = 4, c.depth = 1, c.heads = 2;
  c.mixer = mixer;
  return c;
}

std::set<std::string> as_set(const DecayGroup& group) {
  return {group.names.begin(), group.names.end()};
}

TEST(LanguageDecayGroups, AreThoseOfTheOfficialTraining) {
  const LanguageModel model(small("tssa"));
  const DecayGroups groups = language_decay_groups(model);
  const std::string h = "transformer.h.0.";
  EXPECT_EQ(as_set(groups.decayed),
            (std::set<std::string>{"transformer.wte.weight", "transformer.wpe.weight",
                                   h + "attn.c_attn.weight", h + "attn.c_proj.weight",
                                   h + "mlp.c_fc.weight", h + "mlp.c_proj.weight"}));
  EXPECT_EQ(
      as_set(groups.exempt),
      (std::set<std::string>{h + "attn.temp", h + "attn.denom_bias", h + "gamma1", h + "gamma2",
                             h + "ln_1.weight", h + "ln_2.weight", "transformer.ln_f.weight"}));
}

TEST(LanguageDecayGroups, BiasesAndConvolutionTapsAreExempt) {
  LanguageConfig config = small("softmax");
  config.bias = true;
  config.options.conv = 3;
  const LanguageModel model(config);
  const DecayGroups groups = language_decay_groups(model);
  const auto exempt = as_set(groups.exempt);
  EXPECT_TRUE(exempt.contains("transformer.h.0.attn.conv.weight"));
  EXPECT_TRUE(exempt.contains("transformer.h.0.mlp.c_fc.bias"));
  EXPECT_TRUE(as_set(groups.decayed).contains("transformer.h.0.attn.c_attn.weight"));
}

TEST(DecayGroups, StepsAndRatesOfAStateSpaceAreExempt) {
  const LanguageModel model(small("ssm"));
  for (const auto& groups : {language_decay_groups(model), vision_decay_groups(model)}) {
    const auto exempt = as_set(groups.exempt);
    const std::string ssm = "transformer.h.0.attn.ssm.";
    for (const char* name : {"log_dt", "log_a_real", "a_imag", "d"}) {
      EXPECT_TRUE(exempt.contains(ssm + name)) << name;
    }
    EXPECT_TRUE(as_set(groups.decayed).contains(ssm + "c"));
  }
}

// Every parameter once, so that the optimiser steps each once.
TEST(LanguageDecayGroups, HoldEveryParameterOnce) {
  for (const char* mixer : {"tssa", "softmax", "ssm"}) {
    const LanguageModel model(small(mixer));
    const DecayGroups groups = language_decay_groups(model);
    std::set<const void*> seen;
    for (const DecayGroup* group : {&groups.decayed, &groups.exempt}) {
      ASSERT_EQ(group->names.size(), group->params.size());
      for (const auto& p : group->params) EXPECT_TRUE(seen.insert(p.unsafeGetTensorImpl()).second);
    }
    EXPECT_EQ(seen.size(), model.parameters().size());
  }
}

TEST(SequenceDecayGroups, FollowTheRuleOfVision) {
  auto config = sequence_preset("tost_seq_tiny");
  config.depth = 1;
  config.pool = "class";
  config.positions = "learned";
  const auto model = make_sequence_classifier(config, WeightInit::kNone);
  const DecayGroups groups = sequence_decay_groups(*model);
  const std::string b = "blocks.0.";
  EXPECT_EQ(
      as_set(groups.decayed),
      (std::set<std::string>{"embed.tokens.weight", "embed.positions.weight", b + "attn.qkv.weight",
                             b + "attn.to_out.0.weight", b + "attn.temp", b + "mlp.fc1.weight",
                             b + "mlp.fc2.weight", "head.weight"}));
  EXPECT_TRUE(as_set(groups.exempt).contains("embed.cls_token"));
  EXPECT_EQ(groups.decayed.names.size() + groups.exempt.names.size(), model->parameters().size());
}

}  // namespace decay_groups_test
}  // namespace tost
