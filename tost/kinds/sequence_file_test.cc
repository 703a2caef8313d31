#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace sequence_file_test {

namespace fs = std::filesystem;
using nlohmann::json;

SequenceInfo tiny_info() {
  SequenceInfo info;
  info.config.vocab = 16;
  info.config.max_length = 12;
  info.config.dim = 8;
  info.config.depth = 1;
  info.config.heads = 2;
  info.config.classes = 3;
  info.coding = {"listops", 16, false};
  info.cut = 12;
  info.classes = {"a", "b", "c"};
  info.training = {{"data", "somewhere"}};
  return info;
}

// Sequence i has 1 + i tokens, all of them i + 1, and label i % 3.
class Ladder : public SequenceDataset {
 public:
  explicit Ladder(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SequenceSample sample(int64_t i) const override {
    return {std::vector<int32_t>(size_t(i + 1), int32_t(i + 1)), {}, label(i)};
  }
  int64_t label(int64_t i) const override { return i % 3; }
  int64_t length(int64_t i) const override { return i + 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  SequenceCoding coding() const override { return {"listops", 16, false}; }
  std::string format() const override { return "listops"; }
  std::string name(int64_t i) const override { return cat("row ", i); }

 private:
  int64_t size_;
  std::vector<std::string> classes_{"a", "b", "c"};
};

class SequenceFile : public ::testing::Test {
 protected:
  fs::path save(const std::map<std::string, std::string>& metadata) {
    const auto model = make_sequence_classifier(tiny_info().config);
    const fs::path file = folder_.path() / "model.safetensors";
    save_safetensors(file, state_dict(*model), metadata);
    return file;
  }
  void expect_refused(const fs::path& file, const std::string& part) {
    try {
      load_sequence_file(file);
      FAIL() << "accepted; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  testing::TempDir folder_;
};

TEST_F(SequenceFile, ComesBackWhole) {
  torch::manual_seed(3);
  const SequenceInfo info = tiny_info();
  const auto model = make_sequence_classifier(info.config);
  model->eval();
  const fs::path file = folder_.path() / "model.safetensors";
  save_safetensors(file, state_dict(*model), to_metadata(info));
  EXPECT_EQ(model_kind(file), "sequence");
  const LoadedSequence loaded = load_sequence_file(file);
  EXPECT_EQ(loaded.info.config, info.config);
  EXPECT_EQ(loaded.info.coding, info.coding);
  EXPECT_EQ(loaded.info.cut, 12);
  EXPECT_EQ(loaded.info.classes, info.classes);
  EXPECT_EQ(loaded.info.training, info.training);
  const SequenceInput input{torch::randint(1, 16, {2, 5}, torch::kLong), {}};
  EXPECT_TRUE(torch::equal(model->forward(input), loaded.model->forward(input)));
}

TEST_F(SequenceFile, RefusesWeightsThatAreNotFinite) {
  auto state = state_dict(*make_sequence_classifier(tiny_info().config));
  auto& last = state.rbegin()->second;
  last = torch::full_like(last, NAN);
  const fs::path file = folder_.path() / "model.safetensors";
  save_safetensors(file, state, to_metadata(tiny_info()));
  EXPECT_NE(testing::data_error_of([&] {
              load_sequence_file(file);
            }).find(cat("tensor '", state.rbegin()->first, "' that are not finite")),
            std::string::npos);
}

TEST_F(SequenceFile, IsNoOtherKind) {
  const fs::path file = save(to_metadata(tiny_info()));
  EXPECT_THROW(load_model_file(file), Error);
  EXPECT_THROW(load_language_file(file), Error);
  auto metadata = to_metadata(tiny_info());
  metadata["tost.kind"] = "language";
  expect_refused(save(metadata), "holds a language model, not a sequence model");
}

TEST_F(SequenceFile, RefusesWhatDoesNotFit) {
  const auto changed = [&](const char* key, auto change) {
    auto metadata = to_metadata(tiny_info());
    json value = json::parse(metadata[key]);
    change(value);
    metadata[key] = value.dump();
    return save(metadata);
  };
  expect_refused(changed("tost.classes", [](json& v) { v.push_back("d"); }), "4 class names");
  expect_refused(changed("tost.coding", [](json& v) { v["vocab"] = 17; }), "coding of 17");
  expect_refused(changed("tost.coding", [](json& v) { v["pairs"] = true; }), "pairs");
  expect_refused(changed("tost.coding", [](json& v) { v["max_length"] = -1; }), "negative");
  expect_refused(changed("tost.coding", [](json& v) { v.erase("kind"); }), "coding");
  expect_refused(changed("tost.coding", [](json& v) { v["max_length"] = 12.5; }),
                 "max_length of its coding has '12.5'");
  expect_refused(changed("tost.coding", [](json& v) { v["vocab"] = 1e300; }),
                 "where an integer belongs");
  expect_refused(changed("tost.coding", [](json& v) { v["vocab"] = UINT64_MAX; }),
                 "where an integer belongs");
  expect_refused(changed("tost.config", [](json& v) { v["heads"] = 3; }), "heads");
  auto metadata = to_metadata(tiny_info());
  metadata.erase("tost.coding");
  expect_refused(save(metadata), "tost.coding");
}

TEST(SequenceData, MustBeCutAsTheModelsWas) {
  SequenceInfo info = tiny_info();
  check_sequence_data(info, Ladder(3), "x");
  info.coding.kind = "bytes";
  EXPECT_THROW(check_sequence_data(info, Ladder(3), "x"), Error);
  info = tiny_info();
  info.classes.push_back("d");
  EXPECT_THROW(check_sequence_data(info, Ladder(3), "x"), Error);
}

TEST(SequenceData, MustHaveTheModelsClassesInItsOrder) {
  const auto refusal = [](const std::vector<std::string>& classes) -> std::string {
    SequenceInfo info = tiny_info();
    info.classes = classes;
    return testing::usage_error_of([&] { check_sequence_data(info, Ladder(3), "x"); });
  };
  EXPECT_EQ(refusal({"a", "b", "c"}), "");
  EXPECT_NE(refusal({"a", "c", "b"}).find("Class 2 of 'x' is 'b' but the model's is 'c'"),
            std::string::npos)
      << refusal({"a", "c", "b"});
  EXPECT_NE(refusal({"0", "1", "2"}).find("Class 1 of 'x'"), std::string::npos);
}

TEST(SequencePredict, TakesAnExpressionAsAFileHasIt) {
  const SequenceInfo info = tiny_info();
  EXPECT_EQ(encode_text(info, "[MIN 2\t7\n]\r\n"), encode_text(info, "[MIN 2 7 ]"));
  try {
    encode_text(info, "[MIN 2");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "The expression leaves 1 brackets open.");
  }
}

TEST(SequenceEval, AgreesWithOneSequenceAtATime) {
  torch::manual_seed(5);
  SequenceConfig config = tiny_info().config;
  config.dropout = 0.5;  // does nothing in evaluation
  const auto model = make_sequence_classifier(config);
  const Ladder data(10);
  const auto result = evaluate(*model, data, {.batch = 3});
  ASSERT_TRUE(result);
  EXPECT_TRUE(model->is_training());
  model->eval();
  const torch::NoGradGuard no_grad;
  double loss = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto logits = model->forward({torch::full({1, i + 1}, i + 1, torch::kLong), {}});
    loss -= logits.to(torch::kDouble).log_softmax(1)[0][data.label(i)].item<double>();
    right += logits.argmax(1).item<int64_t>() == data.label(i);
  }
  EXPECT_NEAR(result->scores.loss(), loss / 10, 1e-5);
  EXPECT_DOUBLE_EQ(result->scores.top1(), double(right) / 10);
  EXPECT_EQ(result->scores.count, 10);
  const auto& counts = result->scores.confusion;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 10);
  ASSERT_EQ(result->quarters.size(), 4u);
  EXPECT_EQ(result->quarters[0].shortest, 1);
  EXPECT_EQ(result->quarters[0].longest, 2);
  EXPECT_EQ(result->quarters[3].longest, 10);
  double hits = 0;
  for (const LengthQuarter& q : result->quarters) hits += q.top1 * double(q.sequences);
  EXPECT_NEAR(hits, double(right), 1e-9);
}

// Twelve sequences: `same` of length 3 and then longer and longer ones.
class Plateau : public Ladder {
 public:
  explicit Plateau(int64_t same) : Ladder(12), same_(same) {}
  SequenceSample sample(int64_t i) const override {
    return {std::vector<int32_t>(size_t(length(i)), 1), {}, label(i)};
  }
  int64_t length(int64_t i) const override { return i < same_ ? 3 : i; }

 private:
  int64_t same_;
};

TEST(SequenceEval, SequencesOfOneLengthShareAQuarter) {
  const auto model = make_sequence_classifier(tiny_info().config);
  const auto rows = [&](int64_t same) {
    std::vector<std::vector<int64_t>> found;
    const auto result = evaluate(*model, Plateau(same));
    for (const LengthQuarter& q : result.value().quarters)
      found.push_back({q.shortest, q.longest, q.sequences});
    return found;
  };
  using Rows = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(rows(12), (Rows{{3, 3, 12}}));
  EXPECT_EQ(rows(4), (Rows{{3, 3, 4}, {4, 5, 2}, {6, 8, 3}, {9, 11, 3}}));
  EXPECT_EQ(rows(7), (Rows{{3, 3, 7}, {7, 8, 2}, {9, 11, 3}}));
}

TEST(SequencePredict, CutsTextsAsTheDataWas) {
  SequenceInfo info = tiny_info();
  // Digits are 1 ... 10, MIN ... SM 11 ... 14, the bracket 15.
  EXPECT_EQ(encode_text(info, "( ( [MAX 2 ) 9 ] )"), (std::vector<int32_t>{12, 3, 10, 15}));
  EXPECT_THROW(encode_text(info, "[MAX 2"), Error);
  EXPECT_THROW(encode_text(info, ""), Error);
  info.coding = {"bytes", 257, false};
  info.cut = 3;
  EXPECT_EQ(encode_text(info, "ab\xff\x01"), (std::vector<int32_t>{98, 99, 256}));
  info.coding.kind = "pixels";
  EXPECT_THROW(encode_text(info, "ab"), Error);
}

TEST(SequencePredict, RanksTheClasses) {
  torch::manual_seed(2);
  const SequenceInfo info = tiny_info();
  const auto model = make_sequence_classifier(info.config);
  model->eval();
  const auto found = predict_texts(*model, info, {{"[MIN 2 9 ]"}, {"7"}}, {.top_k = 2});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, "[MIN 2 9 ]");
  ASSERT_EQ(found[0].top.size(), 2u);
  EXPECT_GE(found[0].top[0].probability, found[0].top[1].probability);
  EXPECT_EQ(found[0].top[0].name, info.classes[size_t(found[0].top[0].label)]);
  EXPECT_THROW(predict_texts(*model, info, {{"7", "8"}}), Error);
  EXPECT_THROW(predict_texts(*model, info, {{"7"}}, {.top_k = 0}), Error);
}

TEST(SequenceEval, CanBeStopped) {
  const auto model = make_sequence_classifier(tiny_info().config);
  const std::atomic<bool> stop = true;
  EXPECT_FALSE(evaluate(*model, Ladder(4), {.batch = 2, .stop = &stop}));
  EXPECT_THROW(evaluate(*model, Ladder(4), {.batch = 0}), Error);
  EXPECT_THROW(evaluate(*model, Ladder(0)), Error);
}

}  // namespace sequence_file_test
}  // namespace tost
