#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/kinds/kinds.h"

namespace tost {
namespace run_kind_test {

using nlohmann::json;

std::string usage_error(const json& values, const json* saved = nullptr) {
  return testing::usage_error_of([&] { choose_run_kind(values, saved); });
}

using testing::mentions;

TEST(RunKind, FollowsFromModelOrRecipe) {
  EXPECT_EQ(choose_run_kind(json::object()).name, "vision");
  EXPECT_EQ(choose_run_kind({{"model", "tost_gpt_char"}}).name, "language");
  EXPECT_EQ(choose_run_kind({{"recipe", "gpt2"}}).name, "language");
  EXPECT_EQ(choose_run_kind({{"recipe", "imagenet"}, {"model", "tost_nano_p4"}}).name, "vision");
  const json saved{{"recipe", "char"}, {"model", "tost_gpt_char"}};
  EXPECT_EQ(choose_run_kind({{"max_steps", 3}}, &saved).name, "language");
  // The file has gone since.
  const json tuned{{"recipe", "char"}, {"from", "/nowhere/model.safetensors"}};
  EXPECT_EQ(choose_run_kind(json::object(), &tuned).name, "language");
  EXPECT_TRUE(mentions(usage_error({{"model", "tost_gpt_char"}}, &tuned), "from"));
}

TEST(RunKind, RefusesSettingsOfAnotherKind) {
  const std::string error = usage_error({{"model", "tost_gpt_char"}, {"randaugment", 2}});
  EXPECT_TRUE(mentions(error,
                       "randaugment is a setting of image models; tost_gpt_char is a "
                       "language model"))
      << error;
  EXPECT_TRUE(mentions(usage_error({{"conv", 4}}), "conv is a setting of language models"));
  const json saved{{"recipe", "char"}, {"model", "tost_gpt_char"}};
  EXPECT_TRUE(
      mentions(usage_error({{"epochs", 3}}, &saved), "epochs is a setting of image models"));
}

TEST(RunKind, RefusesNamesThatDoNotAgreeOrExist) {
  const std::string error = usage_error({{"model", "tost_gpt_char"}, {"recipe", "imagenet"}});
  EXPECT_TRUE(mentions(error, "tost_gpt_char is a language model") &&
              mentions(error, "imagenet is for image models"))
      << error;
  EXPECT_TRUE(mentions(usage_error({{"model", "tost_gpt_chr"}}), "tost_gpt_char"));
  EXPECT_TRUE(mentions(usage_error({{"recipe", "gtp2"}}), "gpt2"));
}

TEST(RunKind, IsRecognisedByData) {
  const testing::TempDir folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name) << text;
    return (folder.path() / name).string();
  };
  const auto kind_of = [](const std::string& path) {
    const RunKind* kind = kind_of_data(path);
    return kind == nullptr ? "" : kind->name;
  };
  write("book/input.txt", "to be\n");
  write("reviews/train/good/1.txt", "fine");
  write("reviews/train/bad/1.txt", "dull");
  write("pictures/train/cat/1.png", "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(kind_of((folder.path() / "book").string()), "language");
  EXPECT_EQ(kind_of((folder.path() / "reviews").string()), "sequence");
  EXPECT_EQ(kind_of((folder.path() / "pictures").string()), "vision");
  EXPECT_EQ(kind_of("shapes"), "vision");
  EXPECT_EQ(kind_of("listops"), "sequence");
  EXPECT_EQ(kind_of(write("notes.md", "to be\n")), "language");
  EXPECT_EQ(kind_of(write("rows.tsv", "1\tto be\n")), "sequence");
  EXPECT_EQ(kind_of(write("archive.zip", std::string("PK\0\0", 4))), "");
  EXPECT_EQ(kind_of((folder.path() / "missing").string()), "");
  EXPECT_EQ(kind_of(""), "");
}

TEST(RunKind, DataOfAnotherKindIsNotTakenForPictures) {
  const testing::TempDir folder;
  std::ofstream(folder.path() / "input.txt") << "to be\n";
  const std::string error = usage_error({{"data", folder.path().string()}});
  EXPECT_TRUE(mentions(error, "data for a language model")) << error;
  EXPECT_TRUE(mentions(error, "--recipe char")) << error;
  EXPECT_EQ(choose_run_kind({{"data", folder.path().string()}, {"recipe", "seq"}}).name,
            "sequence");
}

// A name must say of which kind it is.
TEST(RunKind, NamesBelongToOneKind) {
  std::set<std::string> seen;
  for (const RunKind& kind : run_kinds()) {
    EXPECT_TRUE(seen.insert(kind.name).second);
    for (const auto* names : {&kind.models, &kind.recipes}) {
      for (const std::string& name : *names) {
        EXPECT_TRUE(seen.insert(name).second || name == kind.name) << name;
      }
    }
    for (const FieldInfo& field : kind.fields) {
      EXPECT_EQ(std::count_if(kind.fields.begin(), kind.fields.end(),
                              [&](const FieldInfo& f) { return f.key == field.key; }),
                1)
          << field.key;
    }
  }
}

// tost eval offers each of them as a flag with the help of the setting.
TEST(Kinds, ScoreByDataOfTheirTraining) {
  for (const Kind& kind : kinds()) {
    for (const std::string& key : kind.data_keys) {
      const auto& fields = kind.runs.front().fields;
      EXPECT_TRUE(std::any_of(fields.begin(), fields.end(),
                              [&](const FieldInfo& f) { return f.key == key; }))
          << kind.name << " " << key;
    }
  }
}

}  // namespace run_kind_test
}  // namespace tost
