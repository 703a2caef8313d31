// Checkpoints in the official scripts' layout give what their authors recorded.
#include <gtest/gtest.h>

#include "tests/testing/shared.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

struct Fixture {
  const char* folder;
  const char* mixer;
};

void PrintTo(const Fixture& fixture, std::ostream* out) {
  *out << fixture.folder;
}

std::string test_name(const ::testing::TestParamInfo<Fixture>& info) {
  return info.param.folder;
}

void expect_recorded(const torch::Tensor& found, const torch::Tensor& recorded) {
  ASSERT_EQ(found.sizes(), recorded.sizes());
  const double largest = recorded.abs().max().item<double>();
  EXPECT_LE((found - recorded).abs().max().item<double>(), 1e-5 * largest);
}

template <class Model>
void expect_same_weights(const Model& model, const fs::path& file) {
  const StateDict found = state_dict(model), wanted = load_safetensors(file).tensors;
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
  }
}

class OfficialVision : public ::testing::TestWithParam<Fixture> {};

TEST_P(OfficialVision, GivesTheLogitsOfItsSafetensors) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  const torch::NoGradGuard no_grad;
  const fs::path file = folder / "checkpoint.pth";
  EXPECT_EQ(model_kind(file), "vision");
  const LoadedModel loaded = load_model_file(file);
  EXPECT_EQ(loaded.file, file);
  EXPECT_FALSE(loaded.model->is_training());
  EXPECT_EQ(loaded.info.config.mixer, GetParam().mixer);
  EXPECT_EQ(loaded.info.config.heads, 4);
  EXPECT_EQ(loaded.info.config.depth, 2);
  EXPECT_EQ(loaded.info.classes.size(), 10u);
  EXPECT_EQ(loaded.info.classes.back(), "9");
  EXPECT_EQ(loaded.info.preprocess.size, 224);
  EXPECT_EQ(loaded.info.preprocess.mean, (std::vector<double>{0.485, 0.456, 0.406}));
  expect_same_weights(*loaded.model, folder / "state.safetensors");

  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  const auto reference = make_image_classifier(loaded.info.config, WeightInit::kNone);
  load_state_dict(*reference, load_safetensors(folder / "state.safetensors").tensors);
  reference->eval();
  const torch::Tensor logits = loaded.model->forward(expected.at("input"));
  EXPECT_LE((logits - reference->forward(expected.at("input"))).abs().max().item<double>(), 1e-6);
  expect_recorded(logits, expected.at("logits"));
}

TEST_P(OfficialVision, GivesTheAveragedWeightsByChoice) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  const torch::NoGradGuard no_grad;
  const fs::path file = folder / "checkpoint.pth";
  EXPECT_EQ(model_kind(file, Weights::kEma), "vision");
  const auto input = load_safetensors(folder / "expected.safetensors").tensors.at("input");
  const torch::Tensor raw = load_model_file(file).model->forward(input);
  const torch::Tensor averaged = load_model_file(file, Weights::kEma).model->forward(input);
  // head.bias is larger by one there.
  EXPECT_LE((averaged - raw - 1).abs().max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Parity, OfficialVision,
                         ::testing::Values(Fixture{"vision_tssa_p16", "tssa"},
                                           Fixture{"vision_tssa_p8_rect", "tssa"},
                                           Fixture{"vision_xca_p16", "xca"},
                                           Fixture{"vision_softmax_p16", "softmax"}),
                         test_name);

class OfficialLanguage : public ::testing::TestWithParam<Fixture> {};

TEST_P(OfficialLanguage, GivesTheLogitsOfItsSafetensors) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam().folder);
  const torch::NoGradGuard no_grad;
  const fs::path file = folder / "ckpt.pt";
  EXPECT_EQ(model_kind(file), "language");
  const LoadedLanguage loaded = load_language_file(file);
  EXPECT_EQ(loaded.file, file);
  EXPECT_FALSE(loaded.model->is_training());
  EXPECT_EQ(loaded.info.config.mixer, GetParam().mixer);
  EXPECT_EQ(loaded.info.config.vocab, 131);
  EXPECT_EQ(loaded.info.config.block, 96);
  EXPECT_EQ(loaded.info.config.heads, 4);
  EXPECT_EQ(loaded.info.tokenizer, nullptr);
  expect_same_weights(*loaded.model, folder / "state.safetensors");
  const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
  const auto reference = make_language_model(loaded.info.config, WeightInit::kNone);
  load_state_dict(*reference, load_safetensors(folder / "state.safetensors").tensors);
  reference->eval();
  const torch::Tensor logits = loaded.model->forward(expected.at("idx"));
  EXPECT_LE((logits - reference->forward(expected.at("idx"))).abs().max().item<double>(), 1e-6);
  expect_recorded(logits, expected.at("logits"));
}

INSTANTIATE_TEST_SUITE_P(Parity, OfficialLanguage,
                         ::testing::Values(Fixture{"lang_tssa", "tssa"},
                                           Fixture{"lang_tssa_bias_short", "tssa"},
                                           Fixture{"lang_softmax", "softmax"}),
                         test_name);

}  // namespace
}  // namespace tost
