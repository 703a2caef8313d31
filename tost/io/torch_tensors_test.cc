// Checkpoints of the official training scripts give the tensors that safetensors files give.
#include "tost/io/torch_tensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tost/base/error.h"
#include "tost/io/safetensors.h"
#include "tost/io/torch_value.h"
#include "tost/testing/shared.h"

namespace tost {
namespace {

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

std::map<std::string, torch::Tensor> read_state(TorchTensorReader& reader, const TorchFile& file,
                                                const char* key) {
  const auto dict = torch_field(file.tree(), file.root(), key);
  if (!dict) fail_data("no ", key);
  return reader.state_dict(*dict, key);
}

void expect_optimizer(TorchTensorReader& reader, const TorchFile& file) {
  const PickleTree& tree = file.tree();
  const auto optimizer = torch_field(tree, file.root(), "optimizer");
  ASSERT_TRUE(optimizer);
  const auto state = torch_field(tree, *optimizer, "state");
  ASSERT_TRUE(state);
  const auto fields = torch_fields(tree, *state);
  ASSERT_GT(fields.size(), 20u);
  for (size_t i = 0; i < fields.size(); i += 2) {
    EXPECT_EQ(tree[fields[i]].kind, PickleKind::kInt);
    const auto moments = reader.state_dict(fields[i + 1], "moments");
    ASSERT_EQ(moments.size(), 3u);
    EXPECT_EQ(moments.at("step").item<float>(), 1.f);
    EXPECT_EQ(moments.at("exp_avg").sizes(), moments.at("exp_avg_sq").sizes());
    EXPECT_TRUE(moments.at("exp_avg_sq").ge(0).all().item<bool>());
  }
}

class VisionCheckpoint : public ::testing::TestWithParam<const char*> {};

TEST_P(VisionCheckpoint, GivesTheWeightsOfTheSafetensorsFile) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam());
  const auto expected = load_safetensors(folder / "state.safetensors").tensors;
  const auto file = TorchFile::open(folder / "checkpoint.pth");
  EXPECT_EQ(file->layout(), TorchLayout::kZip);
  TorchTensorReader reader(file);
  const auto model = read_state(reader, *file, "model");
  const auto ema = read_state(reader, *file, "model_ema");
  ASSERT_EQ(model.size(), expected.size());
  ASSERT_EQ(ema.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(model.count(name)) << name;
    EXPECT_TRUE(same_bits(model.at(name), tensor)) << name;
    EXPECT_TRUE(same_bits(ema.at(name), name == "head.bias" ? tensor + 1.0 : tensor)) << name;
  }
  expect_optimizer(reader, *file);
  const auto args = torch_field(file->tree(), file->root(), "args");
  ASSERT_TRUE(args);
  EXPECT_TRUE(file->tree().is_call(*args, "argparse", "Namespace"));
  const auto epochs = torch_field(file->tree(), *args, "epochs");
  ASSERT_TRUE(epochs);
  EXPECT_EQ(torch_number(*file, *epochs), 400.0);
}

INSTANTIATE_TEST_SUITE_P(Parity, VisionCheckpoint,
                         ::testing::Values("vision_tssa_p16", "vision_tssa_p8_rect",
                                           "vision_softmax_p16", "vision_xca_p16"));

class LanguageCheckpoint : public ::testing::TestWithParam<const char*> {};

TEST_P(LanguageCheckpoint, GivesTheWeightsOfTheSafetensorsFile) {
  TOST_SHARED_OR_SKIP(folder, std::string("parity/") + GetParam());
  const auto expected = load_safetensors(folder / "state.safetensors").tensors;
  const auto file = TorchFile::open(folder / "ckpt.pt");
  TorchTensorReader reader(file);
  const auto model = read_state(reader, *file, "model");
  const bool compiled = std::string(GetParam()) == "lang_tssa";
  const std::string prefix = compiled ? "_orig_mod." : "";
  ASSERT_EQ(model.size(), expected.size() + 1);  // and the tied head
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(model.count(prefix + name)) << name;
    EXPECT_TRUE(same_bits(model.at(prefix + name), tensor)) << name;
  }
  EXPECT_TRUE(
      same_bits(model.at(prefix + "lm_head.weight"), model.at(prefix + "transformer.wte.weight")));
  expect_optimizer(reader, *file);
  const auto loss = torch_field(file->tree(), file->root(), "best_val_loss");
  ASSERT_TRUE(loss);
  EXPECT_GT(torch_number(*file, *loss).value(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Parity, LanguageCheckpoint,
                         ::testing::Values("lang_tssa", "lang_tssa_bias_short", "lang_softmax"));

TEST(TorchTensorReader, KeepsTheFileAliveAndWritesNothingBack) {
  TOST_SHARED_OR_SKIP(folder, "parity/vision_tssa_p16");
  torch::Tensor bias;
  {
    const auto file = TorchFile::open(folder / "checkpoint.pth");
    TorchTensorReader reader(file);
    bias = read_state(reader, *file, "model").at("head.bias");
  }
  const auto before = bias.clone();
  bias.add_(1.0);
  EXPECT_TRUE(same_bits(bias, before + 1.0));
  const auto again = TorchFile::open(folder / "checkpoint.pth");
  TorchTensorReader reader(again);
  EXPECT_TRUE(same_bits(read_state(reader, *again, "model").at("head.bias"), before));
}

TEST(TorchTensorReader, RefusesWhatIsNoDictOfTensors) {
  TOST_SHARED_OR_SKIP(folder, "parity/vision_tssa_p16");
  const auto file = TorchFile::open(folder / "checkpoint.pth");
  TorchTensorReader reader(file);
  try {
    read_state(reader, *file, "epoch");
    FAIL() << "an integer was taken for a state dict";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("epoch holds no tensors by name"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tost
