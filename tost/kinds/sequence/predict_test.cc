#include <gtest/gtest.h>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/kinds/kinds.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace sequence_predict_test {

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

TEST(SequenceLogits, AreThoseOfTheModel) {
  SequenceConfig config = small_config();
  for (const bool pairs : {false, true}) {
    config.pairs = pairs;
    const auto model = small_model(config);
    SequenceBatch batch = small_batch();
    if (pairs) batch.second = batch.ids.flip(0), batch.second_lengths = batch.lengths.flip(0);
    const Tensor expected = forward_batch(*model, batch).detach();
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      const Tensor found = sequence_logits(*model, batch, precision);
      EXPECT_FALSE(found.requires_grad());
      expect_near(found, expected, precision);
    }
    EXPECT_THROW(sequence_logits(*model, batch, Precision::kInt8), Error);
    EXPECT_THROW(sequence_logits(*model, batch, Precision::kInt4), Error);
  }
}

TEST(SequenceLogits, OfAQuantisedFileAreNearThoseOfTheWhole) {
  const testing::TempDir folder;
  SequenceInfo info;
  info.config = small_config();
  info.coding = {"listops", 16, false};
  info.classes = {"a", "b", "c"};
  const auto model = small_model(info.config);
  const auto whole = folder.path() / "whole.safetensors",
             small = folder.path() / "int8.safetensors";
  save_safetensors(whole, state_dict(*model), to_metadata(info));
  const QuantizeResult result = quantize_model(whole, small, Precision::kInt8);
  EXPECT_EQ(result.kind, "sequence");
  EXPECT_EQ(result.rounded, 4 * 2 + 1);
  const LoadedSequence loaded = load_sequence_file(small);
  EXPECT_EQ(loaded.precision, Precision::kInt8);
  const Tensor whole_logits = sequence_logits(*model, small_batch(), Precision::kFp32);
  expect_near(sequence_logits(*loaded.model, small_batch(), Precision::kFp32), whole_logits,
              Precision::kInt8);
}

TEST(PredictTexts, RanksTheProbabilitiesOfTheModel) {
  SequenceInfo info;
  info.config = small_config();
  info.coding = {"listops", 16, false};
  info.classes = {"a", "b", "c"};
  const auto model = small_model(info.config);
  const std::vector<SequenceText> texts{{"[MAX 2 [MIN 8 5 ] 3 ]"}, {"7"}};
  const auto found = predict_texts(*model, info, texts);
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const auto ids = torch::tensor(encode_text(info, texts[i].text), torch::kLong).unsqueeze(0);
    const auto [most, label] = model->forward({ids, {}})[0].softmax(0).max(0);
    EXPECT_EQ(found[i].top[0].label, label.item<int64_t>());
    EXPECT_NEAR(found[i].top[0].probability, most.item<double>(), 1e-6);
  }
}

}  // namespace sequence_predict_test
}  // namespace tost
