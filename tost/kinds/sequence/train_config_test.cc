#include "tost/kinds/sequence/train_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tost/base/error.h"
#include "tost/kinds/sequence/task.h"

namespace tost {
namespace sequence_train_config_test {

using nlohmann::json;

SequenceTrainConfig made(const json& values) {
  return make_config(sequence_train_form(), values);
}

std::string usage_error(const json& values) {
  return testing::usage_error_of([&] { made(values); });
}

using testing::mentions;

TEST(SequenceTrainConfig, EveryRecipeMakesAModelAndComesBackFromJson) {
  for (const auto& recipe : sequence_recipes()) {
    json values{{"recipe", recipe.name}};
    if (recipe.values.value("data", "listops").empty()) values["data"] = "somewhere";
    const SequenceTrainConfig config = made(values);
    EXPECT_EQ(config.recipe, recipe.name);
    const SequenceConfig model = sequence_config(config);
    EXPECT_TRUE(config.max_length == 0 || model.max_length == config.max_length) << recipe.name;
    const json written = sequence_train_form().fields.to_json(config);
    EXPECT_EQ(sequence_train_form().fields.to_json(made(written)), written) << recipe.name;
  }
}

// Base rate 0.05 with 1,000 steps of warm-up, 5,000 steps of 32 sequences of up to 2,000 tokens.
TEST(SequenceTrainConfig, ListOpsRecipeIsTheBenchmarks) {
  const SequenceTrainConfig c = made({{"recipe", "lra-listops"}});
  EXPECT_NEAR(c.lr * std::sqrt(1000.0), 0.05, 1e-12);
  EXPECT_EQ(c.schedule, "rsqrt");
  EXPECT_EQ(c.warmup_steps, 1000);
  EXPECT_EQ(c.max_steps, 5000);
  EXPECT_EQ(c.batch, 32);
  EXPECT_EQ(c.weight_decay, 0.1);
  const SequenceConfig model = sequence_config(c);
  EXPECT_EQ(model.dim, 512);
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.max_length, 2000);
}

TEST(SequenceTrainConfig, OptionsReachTheModel) {
  const SequenceTrainConfig c =
      made({{"dim", 32}, {"model_options", {{"heads", 8}}}, {"mixer", "none"}, {"max_length", 77}});
  const SequenceConfig model = sequence_config(c);
  EXPECT_EQ(model.dim, 32);
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.mixer, "none");
  EXPECT_EQ(model.max_length, 77);
  const SequenceSpec spec =
      sequence_spec(made({{"max_length", 50}, {"side", 16}, {"data_seed", 3}}));  // side: retired
  EXPECT_EQ(spec.max_length, 50);
  EXPECT_EQ(spec.seed, 3u);
}

TEST(SequenceTrainConfig, GeneratedSetsKeepTheirNames) {
  EXPECT_EQ(made({{"data", "listops"}}).data, "listops");
}

TEST(SequenceTrainConfig, RefusesWhatCannotBe) {
  EXPECT_TRUE(mentions(usage_error({{"recipe", "lra-text"}}), "data is empty"));
  EXPECT_TRUE(mentions(usage_error({{"heads", 3}}), "heads"));
  EXPECT_TRUE(mentions(usage_error({{"mixer", "tsa"}}), "tssa"));
  EXPECT_TRUE(mentions(usage_error({{"model_options", {{"hed", 3}}}}), "hed"));
  EXPECT_TRUE(mentions(usage_error({{"data_format", "idx"}}), "data_format"));
}

TEST(SequenceTrainConfig, MemoryIsRefusedWithBothFigures) {
  const SequenceConfig config = sequence_config(made({{"recipe", "lra-listops"}}));
  check_training_memory(config, 32, 2000, 0);  // nothing is known
  check_training_memory(config, 1, 10, int64_t{64} << 30);
  try {
    check_training_memory(config, 1000, 2000, int64_t{1} << 30);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_TRUE(mentions(error.what(), "1.0 GiB")) << error.what();
    EXPECT_TRUE(mentions(error.what(), "batches of 1000")) << error.what();
    EXPECT_TRUE(mentions(error.what(), "accumulate")) << error.what();
  }
}

}  // namespace sequence_train_config_test
}  // namespace tost
