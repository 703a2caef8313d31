#include "tost/kinds/sequence/runner.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/kinds/quantize.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/predict.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace sequence_runner_test {

using torch::Tensor;

SequenceConfig small_config() {
  SequenceConfig c;
  c.vocab = 16;
  c.max_length = 30;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.classes = 3;
  return c;
}

std::shared_ptr<SequenceClassifier> small_model(const SequenceConfig& config) {
  torch::manual_seed(1);
  auto model = make_sequence_classifier(config);
  model->eval();
  return model;
}

SequenceBatch small_batch() {
  torch::manual_seed(2);
  SequenceBatch batch;
  batch.ids = torch::randint(1, 16, {3, 30}, torch::kLong);
  batch.lengths = torch::tensor({30, 4, 17}, torch::kLong);
  return batch;
}

void expect_near(const Tensor& found, const Tensor& expected, Precision precision) {
  EXPECT_LE((found - expected).abs().max().item<double>(),
            (precision == Precision::kFp32 ? 1e-5 : 3e-2) * expected.abs().max().item<double>())
      << precision;
}

TEST(SequenceRunner, EngineAndModuleAgree) {
  const auto model = small_model(small_config());
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    SequenceRunner fast(*model, precision, /*engine=*/true), plain(*model, precision, false);
    EXPECT_TRUE(fast.by_engine());
    EXPECT_FALSE(plain.by_engine());
    const Tensor expected = plain.logits(small_batch());
    EXPECT_FALSE(expected.requires_grad());
    expect_near(fast.logits(small_batch()), expected, precision);
  }
}

TEST(SequenceRunner, ReadsPairs) {
  SequenceConfig config = small_config();
  config.pairs = true;
  const auto model = small_model(config);
  SequenceBatch batch = small_batch();
  batch.second = batch.ids.flip(0);
  batch.second_lengths = batch.lengths.flip(0);
  SequenceRunner fast(*model, Precision::kFp32, true), plain(*model, Precision::kFp32, false);
  expect_near(fast.logits(batch), plain.logits(batch), Precision::kFp32);
}

TEST(SequenceRunner, RefusesPrecisionsItCannotGive) {
  const auto model = small_model(small_config());
  EXPECT_THROW(SequenceRunner(*model, Precision::kInt8, false), Error);
  EXPECT_THROW(SequenceRunner(*model, Precision::kInt4, true), Error);
  EXPECT_THROW(SequenceRunner(*model, Precision::kInt4, false), Error);
  model->to(torch::kBFloat16);
  EXPECT_THROW(SequenceRunner(*model, Precision::kInt8, true), Error);
  EXPECT_FALSE(SequenceRunner(*model, Precision::kFp32, true).by_engine());
}

TEST(SequenceRunner, AQuantisedFileComputesWhatTheEngineMakesOfTheWhole) {
  const testing::TempDir folder;
  SequenceInfo info;
  info.config = small_config();
  info.coding = {"listops", 16, false};
  info.classes = {"a", "b", "c"};
  const auto model = small_model(info.config);
  const auto whole = folder.path() / "whole.safetensors",
             small = folder.path() / "int8.safetensors";
  save_sequence_file(whole, *model, info);
  const QuantizeResult result = quantize_model(whole, small, Precision::kInt8);
  EXPECT_EQ(result.kind, "sequence");
  EXPECT_EQ(result.rounded, 4 * 2 + 1);
  const LoadedSequence loaded = load_sequence_file(small);
  EXPECT_EQ(loaded.precision, Precision::kInt8);
  SequenceRunner of_file(*loaded.model, Precision::kInt8, true),
      of_model(*model, Precision::kInt8, true);
  SequenceRunner plain(*model, Precision::kFp32, false);
  const Tensor found = of_file.logits(small_batch());
  // The head alone differs: the file has it in integers, the engine in bfloat16.
  expect_near(found, of_model.logits(small_batch()), Precision::kInt8);
  expect_near(found, plain.logits(small_batch()), Precision::kInt8);
}

TEST(SequenceRunner, PredictionsOfBothAgree) {
  SequenceInfo info;
  info.config = small_config();
  info.coding = {"listops", 16, false};
  info.classes = {"a", "b", "c"};
  const auto model = small_model(info.config);
  const std::vector<SequenceText> texts{{"[MAX 2 [MIN 8 5 ] 3 ]"}, {"7"}};
  PredictOptions options;
  const auto fast = predict_texts(*model, info, texts, options);
  options.engine = false;
  const auto plain = predict_texts(*model, info, texts, options);
  ASSERT_EQ(fast.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(fast[i].top[0].label, plain[i].top[0].label);
    EXPECT_NEAR(fast[i].top[0].probability, plain[i].top[0].probability, 1e-5);
  }
}

}  // namespace sequence_runner_test
}  // namespace tost
