// Checkpoints of the official training scripts give the tensors that safetensors files give.
#include "tost/ops/torch_tensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/testing/shared.h"
#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/io/torch_test_util.h"
#include "tost/io/torch_value.h"
#include "tost/ops/safetensors.h"

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
  EXPECT_EQ(torch_number(file->tree(), *epochs), 400.0);
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
  EXPECT_GT(reader.tensor(*loss).item<float>(), 0.f);
}

INSTANTIATE_TEST_SUITE_P(Parity, LanguageCheckpoint,
                         ::testing::Values("lang_tssa", "lang_tssa_bias_short", "lang_softmax"));

std::shared_ptr<const TorchFile> parse(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return TorchFile::parse(*owner, "x.pt", owner);
}

TEST(TorchTensorReader, TensorsOfOneStorageShareItAtAnyAlignment) {
  using namespace testing;
  const std::string object =
      dict({str("a"), tensor(storage("0", 4), 0, integers({2, 2}), integers({1, 2})), str("b"),
            tensor(storage("0", 4), 1, integers({3}), integers({1}))});
  std::string data;
  for (const uint32_t value : {0x3f800000u, 0x40000000u, 0x40400000u, 0x40800000u}) {
    data += number(value, 4);  // 1, 2, 3, 4
  }
  for (size_t shift = 0; shift < 16; ++shift) {
    // Longer strings in the object move the storage.
    const auto file = parse(torch_zip(tuple({object, str(std::string(shift, 'x'))}), data));
    TorchTensorReader reader(file);
    const auto state = reader.state_dict(file->tree().items(file->root())[0], "model");
    EXPECT_TRUE(torch::equal(state.at("a"), torch::tensor({{1.f, 3.f}, {2.f, 4.f}})));
    EXPECT_TRUE(torch::equal(state.at("b"), torch::tensor({2.f, 3.f, 4.f})));
    EXPECT_TRUE(state.at("a").is_alias_of(state.at("b")));
    state.at("b").fill_(7);
    EXPECT_EQ(state.at("a")[1][1].item<float>(), 7.f);
  }
}

std::string refusal(const std::string& storage_class, const std::string& data) {
  using namespace testing;
  const std::string on = storage("0", int64_t(data.size()), storage_class);
  const auto file = parse(torch_zip(tensor(on, 0, integers({2}), integers({1})), data));
  TorchTensorReader reader(file);
  try {
    reader.tensor(file->root());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TorchTensorReader, RefusesBytesThatAreNoBoolsAndQuantisedTypes) {
  EXPECT_EQ(refusal("BoolStorage", std::string("\0\1", 2)), "");
  EXPECT_NE(refusal("BoolStorage", std::string("\0\2", 2)).find("the byte 2 in a bool"),
            std::string::npos);
  EXPECT_NE(refusal("QInt8Storage", "ab").find("type qint8, which is not read"), std::string::npos);
}

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

// A small file that torch 1.13.1 itself wrote: torch.save of a dict with a state dict, a Namespace,
// an OrderedDict, a parameter twice, a strided view of 24 numbers, and bfloat16.
const std::string kTestdata = TOST_SOURCE_DIR "/tost/io/testdata/";

TEST(OldTorch, IsReadToTheLastValue) {
  const auto file = TorchFile::open(kTestdata + "torch-1.13.1.pth");
  TorchTensorReader reader(file);
  const auto model = read_state(reader, *file, "model");
  ASSERT_EQ(model.size(), 2u);
  EXPECT_TRUE(torch::equal(model.at("weight"), torch::arange(6.f).reshape({2, 3}) / 4));
  EXPECT_TRUE(torch::equal(model.at("bias"), torch::tensor({-1.f, 0.5f})));
  const auto ordered = read_state(reader, *file, "ordered");
  EXPECT_TRUE(torch::equal(ordered.at("b"), torch::tensor({3, -4}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(ordered.at("a"), torch::tensor({true, false})));
  const auto top = reader.state_dict(file->root(), "the file");
  EXPECT_TRUE(torch::equal(top.at("parameter"), torch::tensor({1.5f, -2.f})));
  EXPECT_EQ(top.at("tied").data_ptr(), top.at("parameter").data_ptr());
  EXPECT_EQ(top.at("strided").strides(), (std::vector<int64_t>{2, 6}));
  EXPECT_TRUE(
      torch::equal(top.at("strided"), torch::tensor({{6.f, 12.f}, {8.f, 14.f}, {10.f, 16.f}})));
  EXPECT_TRUE(torch::equal(top.at("half"), torch::tensor({1.f, -0.375f}).to(torch::kBFloat16)));
  const PickleTree& tree = file->tree();
  const auto args = torch_field(tree, file->root(), "args");
  ASSERT_TRUE(args);
  EXPECT_TRUE(tree.is_string(*torch_field(tree, *args, "model"), "tost_cab_tiny_12_p16"));
  EXPECT_EQ(torch_number(tree, *torch_field(tree, *args, "lr")), 5e-4);
  EXPECT_EQ(torch_number(tree, *torch_field(tree, file->root(), "epoch")), 7);
}

TEST(OldTorch, TheLayoutBefore16IsRefused) {
  try {
    TorchFile::open(kTestdata + "torch-1.13.1-legacy.pth");
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the layout of torch before 1.6"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tost
