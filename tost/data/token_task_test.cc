#include "tost/data/token_task.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace token_task_test {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, torch::Tensor>;
using Metadata = std::map<std::string, std::string>;

// Three samples of up to four tokens in two groups.
Tensors tensors() {
  return {
      {"tokens", torch::tensor({1, 2, 3, 0, 4, 5, 6, 7, 1, 1, 0, 0}, torch::kUInt8).view({3, 4})},
      {"targets",
       torch::tensor({-1, 3, -1, -1, 5, -1, -1, 7, -1, 2, -1, -1}, torch::kInt16).view({3, 4})},
      {"group", torch::tensor({0, 1, 0}, torch::kInt32)}};
}

Metadata metadata() {
  return {{"vocabulary", "8"}, {"task", "recall"}, {"groups", R"(["2", "4"])"}};
}

void write(const fs::path& folder, const Tensors& tensors, const Metadata& metadata) {
  save_safetensors(folder / "validation.safetensors", tensors, metadata);
}

TEST(TokenTask, ReadsGroupsCutToTheirTargets) {
  const testing::TempDir dir;
  EXPECT_FALSE(is_token_task(dir.path()));
  write(dir.path(), tensors(), metadata());
  EXPECT_TRUE(is_token_task(dir.path()));
  const TokenTaskData data(dir.path(), "validation");
  EXPECT_EQ(data.task(), "recall");
  EXPECT_EQ(data.vocabulary(), 8);
  ASSERT_EQ(data.groups(), 2);
  EXPECT_EQ(data.name(1), "4");
  EXPECT_EQ(data.samples(0), 2);
  EXPECT_EQ(data.length(0), 2);
  EXPECT_EQ(data.length(1), 4);
  const TokenTaskBatch batch = data.batch(0, {1, 0});
  EXPECT_TRUE(torch::equal(batch.ids, torch::tensor({1, 1, 1, 2}, torch::kInt64).view({2, 2})));
  EXPECT_TRUE(
      torch::equal(batch.targets, torch::tensor({-1, 2, -1, 3}, torch::kInt64).view({2, 2})));
}

TEST(TokenTask, WithoutGroupsAllIsOne) {
  const testing::TempDir dir;
  Tensors some = tensors();
  some.erase("group");
  write(dir.path(), some, {{"vocabulary", "8"}});
  const TokenTaskData data(dir.path(), "validation");
  EXPECT_EQ(data.groups(), 1);
  EXPECT_EQ(data.samples(0), 3);
  EXPECT_EQ(data.length(0), 4);
}

TEST(TokenTask, RefusesWhatDoesNotFit) {
  const testing::TempDir dir;
  const auto error = [&](const Tensors& change, const Metadata& facts) {
    Tensors all = tensors();
    for (const auto& [name, tensor] : change) all[name] = tensor;
    Metadata changed = metadata();
    for (const auto& [key, value] : facts) changed[key] = value;
    write(dir.path(), all, changed);
    return testing::error_of([&] { TokenTaskData(dir.path(), "validation").batch(0, {0, 1}); });
  };
  EXPECT_EQ(error({}, {}), "");
  const auto zeros = [](std::vector<int64_t> shape) { return torch::zeros(shape, torch::kInt32); };
  for (const auto& [change, facts, words] : std::vector<std::tuple<Tensors, Metadata, std::string>>{
           {{{"tokens", zeros({3})}}, {}, "'tokens' must have 2 axes"},
           {{{"tokens", zeros({3, 0})}}, {}, "not be empty"},
           {{{"tokens", torch::zeros({3, 4})}}, {}, "must hold integers"},
           {{{"tokens", zeros({3, 5})}}, {}, "differ in shape"},
           {{{"tokens", zeros({3, 4}) + 8}}, {}, "token 8 is outside the vocabulary of 8"},
           {{{"tokens", zeros({3, 4}) - 1}}, {}, "token -1"},
           {{{"targets", zeros({3, 4}) - 1}}, {}, "sample 0 asks for no token"},
           {{{"targets", zeros({3, 4}) + 9}}, {}, "target 9"},
           {{{"group", zeros({2})}}, {}, "2 entries for 3 samples"},
           {{{"group", zeros({3}) + 2}}, {}, "is of group 2"},
           {{{"group", zeros({3}) - 1}}, {}, "is of group -1"},
           {{}, {{"vocabulary", "8x"}}, "a number from 1"},
           {{}, {{"vocabulary", "99999999999999999999"}}, "a number from 1"},
           {{}, {{"tokenizer", "words"}}, "must be bytes"},
           {{}, {{"groups", "[]"}}, "a list of 1 to"},
           {{}, {{"groups", "[1, 2]"}}, "a list of 1 to"},
           {{}, {{"groups", "[\"a\""}}, "groups"}}) {
    EXPECT_TRUE(testing::mentions(error(change, facts), words))
        << words << ": " << error(change, facts);
  }
  EXPECT_TRUE(testing::mentions(testing::error_of([&] { TokenTaskData(dir.path(), "train"); }),
                                "there are validation"));
  write_file_atomic(dir.path() / "validation.safetensors", "nothing of the kind");
  EXPECT_NE(testing::error_of([&] { TokenTaskData(dir.path(), "validation"); }), "");
}

}  // namespace token_task_test
}  // namespace tost
