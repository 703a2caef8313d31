#include "tost/kinds/language/train_config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"

namespace tost {
namespace language_train_config_test {

using nlohmann::json;

const ConfigForm<LanguageTrainConfig>& form() {
  return language_train_form();
}

LanguageTrainConfig made(json values) {
  values["data"] = "text";
  return make_config(form(), values);
}

std::string usage_error(const json& values) {
  return testing::usage_error_of([&] { made(values); });
}

using testing::mentions;

TEST(LanguageTrainConfig, EveryRecipeSurvivesJsonBothWays) {
  for (const std::string& name : names_of(language_recipes())) {
    const json once = form().fields.to_json(made({{"recipe", name}}));
    EXPECT_EQ(once["recipe"], name);
    EXPECT_EQ(form().fields.to_json(made(once)), once) << name;
    EXPECT_GT(once["max_steps"], 0) << name;
    EXPECT_GT(once["evaluate_every_steps"], 0) << name;
  }
}

TEST(LanguageTrainConfig, ReadsWhatVersion010Wrote) {
  const json now = form().fields.to_json(made({}));
  json before = now;
  before["graphs"] = "auto";
  EXPECT_EQ(form().fields.to_json(made(before)), now);
}

// Tokens a step of the official configurations.
TEST(LanguageTrainConfig, OfficialRecipesTakeTheSameTokensAStep) {
  for (const char* name : {"gpt2", "gpt2-medium", "gpt2-large"}) {
    const LanguageTrainConfig c = made({{"recipe", name}});
    EXPECT_EQ(c.batch * c.accumulate * language_config(c).block, 491'520) << name;
    EXPECT_EQ(c.weight_decay, c.model == "tost_gpt_base" ? 0.01 : 0.1);
  }
}

TEST(LanguageTrainConfig, ModelFieldsCanBeSetWithoutModelOptions) {
  const json values{
      {"block", 32}, {"conv", 4}, {"scale_pi", true}, {"model_options", {{"dim", 64}}}};
  const LanguageTrainConfig config = made(values);
  EXPECT_EQ(config.model_options,
            json({{"block", 32}, {"conv", 4}, {"scale_pi", true}, {"dim", 64}}));
  const LanguageConfig model = language_config(config);
  EXPECT_EQ(model.block, 32);
  EXPECT_EQ(model.dim, 64);
  EXPECT_EQ(model.options.conv, 4);
  EXPECT_TRUE(model.options.scale_pi);
  EXPECT_EQ(model.depth, 4) << "the preset's";
  EXPECT_TRUE(mentions(usage_error({{"conv", 4}, {"model_options", {{"conv", 3}}}}), "leave one"));
  EXPECT_EQ(usage_error({{"conv", 4}, {"model_options", {{"conv", 4}}}}), "");
}

TEST(LanguageTrainConfig, TheFolderOfATokenizerIsKeptAbsolute) {
  const testing::TempDir dir;
  const std::string name = "gpt2:" + std::filesystem::relative(dir.path()).string();
  EXPECT_EQ(made({{"tokenizer", name}}).tokenizer, "gpt2:" + dir.path().string());
  for (const char* other : {"auto", "words:500", "gpt2", "gpt2:nowhere"}) {
    EXPECT_EQ(made({{"tokenizer", other}}).tokenizer, other);
  }
}

TEST(LanguageTrainConfig, WrongValuesAreNamed) {
  for (const auto& [values, word] : std::vector<std::pair<json, std::string>>{
           {{{"block", 0}}, "block"},
           {{{"block", "x"}}, "block"},
           {{{"block", 1.5}}, "block"},
           {{{"heads", 3}}, "heads"},
           {{{"gate", 1}}, "gate"},
           {{{"decay", "lerned"}}, "learned"},
           {{{"mixer", "softmx"}}, "softmax"},
           {{{"mixer", "softmax"}, {"means", "values"}}, "means"},
           {{{"model_options", {{"headz", 2}}}}, "heads"},
           {{{"model_options", 3}, {"conv", 2}}, "model_options"},
           {{{"model", "tost_gpt_chr"}}, "tost_gpt_char"},
           {{{"recipe", "gtp2"}}, "gpt2"},
           {{{"max_steps", 0}}, "max_steps"},
           {{{"holdout", 1}}, "holdout"},
           {{{"lr", 1e-6}}, "min_lr"},
           {{{"epochs", 3}}, "epochs"}}) {
    EXPECT_TRUE(mentions(usage_error(values), word)) << values << ": " << usage_error(values);
  }
  EXPECT_TRUE(mentions(usage_error({{"data", 1}}), "") && !usage_error({{"batch", 0}}).empty());
  EXPECT_THROW(make_config(form(), json::object()), Error) << "data must be named";
}

// Every field refuses a value of another type, and every number one outside its range.
TEST(LanguageTrainConfig, EveryFieldIsChecked) {
  for (const FieldInfo& field : form().fields.fields()) {
    if (field.key == "data") continue;
    const bool text = field.type == FieldType::kText || field.type == FieldType::kChoice;
    EXPECT_TRUE(mentions(usage_error({{field.key, text ? json(1) : json("x")}}), field.key))
        << field.key;
    if (field.type == FieldType::kInteger) {
      EXPECT_NE(usage_error({{field.key, int64_t(field.high) + 1}}), "") << field.key;
      EXPECT_NE(usage_error({{field.key, int64_t(field.low) - 1}}), "") << field.key;
    }
    EXPECT_FALSE(field.help.empty()) << field.key;
  }
  for (const FieldInfo& field : form().shorthands) EXPECT_FALSE(field.help.empty()) << field.key;
}

TEST(LanguageTrainConfig, ResumingKeepsTheModelAndItsOptions) {
  const LanguageTrainConfig saved = made({{"conv", 4}});
  std::vector<std::string> messages;
  EXPECT_EQ(
      resume_config(form(), saved, {{"conv", 4}, {"sample_tokens", 5}}, messages).sample_tokens, 5);
  EXPECT_TRUE(messages.empty());
  resume_config(form(), saved, {{"max_steps", 9000}}, messages);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(mentions(messages[0], "9000") && mentions(messages[0], "2000")) << messages[0];
  EXPECT_THROW(resume_config(form(), saved, {{"conv", 3}}, messages), Error);
  EXPECT_THROW(resume_config(form(), saved, {{"mixer", "softmax"}, {"conv", 4}}, messages), Error);
}

}  // namespace language_train_config_test
}  // namespace tost
