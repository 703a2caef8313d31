#include "tost/kinds/vision/train_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {
namespace vision_train_config_test {

using nlohmann::json;

std::string usage_error(const json& values) {
  return testing::usage_error_of([&] { make_config(vision_train_form(), values); });
}

using testing::mentions;

TEST(VisionTrainConfig, EveryRecipeSurvivesJsonBothWays) {
  for (const std::string& name : names_of(vision_recipes())) {
    const json once = vision_train_form().fields.to_json(make_recipe(vision_train_form(), name));
    EXPECT_EQ(once["recipe"], name);
    EXPECT_EQ(vision_train_form().fields.to_json(make_config(vision_train_form(), once)), once)
        << name;
    EXPECT_EQ(
        vision_train_form().fields.to_json(make_config(vision_train_form(), {{"recipe", name}})),
        once)
        << name;
  }
}

TEST(VisionTrainConfig, FlagsBeatTheFileAndTheFileBeatsTheRecipe) {
  const json file{
      {"recipe", "imagenet"}, {"lr", 0.5}, {"epochs", 7}, {"model_options", {{"depth", 3}}}};
  const json flags{{"epochs", 9}, {"model_options", {{"heads", 2}}}};
  const VisionTrainConfig config = make_config(vision_train_form(), merge(file, flags));
  EXPECT_EQ(config.epochs, 9);
  EXPECT_EQ(config.lr, 0.5);
  EXPECT_EQ(config.mixup, 0.8);
  EXPECT_EQ(config.model_options, json({{"depth", 3}, {"heads", 2}}));
}

TEST(VisionTrainConfig, UnknownNamesOfferTheNearest) {
  EXPECT_TRUE(mentions(usage_error({{"epoch", 3}}), "epochs"));
  EXPECT_TRUE(mentions(usage_error({{"recipe", "smal"}}), "small"));
  EXPECT_TRUE(mentions(usage_error({{"model", "tost_nano_p5"}}), "tost_nano_p4"));
  EXPECT_TRUE(mentions(usage_error({{"mixer", "softmx"}}), "softmax"));
}

// Every field refuses a value of another type, and every number one outside its range.
TEST(VisionTrainConfig, EveryFieldIsChecked) {
  for (const FieldInfo& field : vision_train_form().fields.fields()) {
    const json wrong =
        field.type == FieldType::kText || field.type == FieldType::kChoice ? json(1) : json("x");
    EXPECT_TRUE(mentions(usage_error({{field.key, wrong}}), field.key)) << field.key;
    if (field.type == FieldType::kInteger || field.type == FieldType::kNumber) {
      const bool whole = field.type == FieldType::kInteger;
      EXPECT_NE(usage_error({{field.key,
                              whole ? json(int64_t(field.high) + 1) : json(field.high * 2 + 1)}}),
                "")
          << field.key;
      EXPECT_NE(
          usage_error({{field.key, whole ? json(int64_t(field.low) - 1) : json(field.low - 1)}}),
          "")
          << field.key;
    }
    EXPECT_FALSE(field.help.empty()) << field.key;
  }
  EXPECT_TRUE(mentions(usage_error({{"lr", -std::nan("")}}), "lr is nan but must lie between 0"));
  EXPECT_TRUE(mentions(usage_error({{"lr", INFINITY}}), "lr is inf but must lie between 0"));
  EXPECT_NE(usage_error({{"seed", uint64_t(1) << 63}}), "");
  EXPECT_NE(usage_error({{"epochs", 1.5}}), "");
}

TEST(VisionTrainConfig, PathsAreKeptAbsoluteAndNamesAsTheyAre) {
  namespace fs = std::filesystem;
  const testing::TempDir dir;
  const fs::path here = fs::current_path(), root = fs::canonical(dir.path());
  make_directories(root / "a" / "b");
  make_directories(root / "c");
  fs::create_directory_symlink(root / "a" / "b", root / "link");
  write_file_atomic(root / "set_train.tsv", "");
  fs::current_path(root);
  EXPECT_EQ(absolute_where_found("a/b/"), (root / "a" / "b").string());
  EXPECT_EQ(absolute_where_found("./a/../c"), (root / "c").string());
  EXPECT_EQ(absolute_where_found("link/../b"), (root / "link/../b").string()) << "that is a/b";
  EXPECT_EQ(absolute_where_found("set"), (root / "set").string()) << "of a file's name";
  for (const char* name : {"", "nothing", "nowhere/set"}) {
    EXPECT_EQ(absolute_where_found(name), name);
  }
  EXPECT_EQ(absolute_setting("nothing"), (root / "nothing").string());
  EXPECT_TRUE(same_path("a/../c", (root / "c").string()));
  EXPECT_FALSE(same_path("a", "c"));
  const auto read = [](const json& values) { return make_config(vision_train_form(), values); };
  EXPECT_EQ(read({{"data", "c"}}).data, (root / "c").string());
  EXPECT_EQ(read({{"from", "x.safetensors"}}).from, (root / "x.safetensors").string());
  make_directories("shapes");
  EXPECT_EQ(read({{"data", "shapes"}}).data, "shapes");
  fs::current_path(here);
}

TEST(VisionTrainConfig, ValuesThatDoNotGoTogether) {
  EXPECT_TRUE(mentions(usage_error({{"evaluate_ema", true}}), "ema_decay"));
  EXPECT_TRUE(mentions(usage_error({{"schedule_lag", 1}}), "schedule"));
  EXPECT_TRUE(mentions(usage_error({{"lr", 1e-6}}), "min_lr"));
}

TEST(VisionTrainConfig, FlagTexts) {
  const auto& fields = vision_train_form().fields;
  EXPECT_EQ(value_from_text(fields.field("lr"), "1e-3"), json(1e-3));
  EXPECT_EQ(value_from_text(fields.field("epochs"), "12"), json(12));
  EXPECT_EQ(value_from_text(fields.field("decay_all"), "true"), json(true));
  EXPECT_EQ(value_from_text(fields.field("mixer"), "xca"), json("xca"));
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"lr", "fast"},
                                                        {"lr", "1e-3x"},
                                                        {"lr", "nan"},
                                                        {"epochs", "1.5"},
                                                        {"epochs", ""},
                                                        {"decay_all", "yes"}}) {
    EXPECT_THROW(value_from_text(fields.field(key), text), Error) << key << "=" << text;
  }
}

TEST(VisionTrainConfig, ResumingSaysWhatChanged) {
  const VisionTrainConfig saved = make_recipe(vision_train_form(), "small");
  std::vector<std::string> messages;
  EXPECT_EQ(resume_config(vision_train_form(), saved, {{"epochs", saved.epochs}, {"workers", 2}},
                          messages)
                .workers,
            2);
  EXPECT_TRUE(messages.empty());
  resume_config(vision_train_form(), saved, {{"lr", 0.25}}, messages);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(mentions(messages[0], "lr 0.25") && mentions(messages[0], "0.002")) << messages[0];
  try {
    resume_config(vision_train_form(), saved, {{"batch", 32}}, messages);
    FAIL() << "another batch size cannot continue the run";
  } catch (const Error& error) {
    EXPECT_TRUE(mentions(error.what(), "batch 64") && mentions(error.what(), "with 32"))
        << error.what();
  }
}

TEST(ConfigFile, IsOneStrictObject) {
  const testing::TempDir dir;
  const auto error_of = [&](const std::string& text) -> std::string {
    const auto path = dir.path() / "c.json";
    write_file_atomic(path, text);
    return testing::usage_error_of([&] { read_config_file(path); });
  };
  EXPECT_EQ(error_of("{\"lr\": 0.5}\n"), "");
  EXPECT_TRUE(mentions(error_of("[]"), "c.json' is not a JSON object"));
  EXPECT_TRUE(mentions(error_of("{\n\"lr\" 0.5}"), "c.json' is not JSON at line 2, column"));
  EXPECT_TRUE(mentions(error_of("{\"lr\": 0.5, \"lr\": 1}"), "the key 'lr' twice"));
  EXPECT_TRUE(mentions(error_of(std::string(100'000, '[')), "nested deeper than 64 levels"));
}

}  // namespace vision_train_config_test
}  // namespace tost
