#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/kinds/kinds.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/ops/safetensors.h"
#include "tost/store/weights_file.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr char kMap[] = "transformer.h.0.mlp.c_fc.weight";
constexpr char kTable[] = "transformer.wte.weight";

class Quantize : public ::testing::Test {
 protected:
  Quantize() {
    LanguageConfig config;
    config.vocab = 70;
    config.block = 16;
    config.dim = 36;  // two groups of four-bit weights, the second one short
    config.depth = 2;
    config.heads = 4;
    config.layer_scale = 1;
    torch::manual_seed(1);
    LanguageInfo info;
    info.config = config;
    model_ = make_language_model(config);
    save_language_file(file("model.safetensors"), *model_, info);
  }

  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

  QuantizeResult quantize(Precision precision) const {
    return quantize_model(file("model.safetensors"), file(cat(precision, ".safetensors")),
                          precision);
  }

  // The message about a file of this precision with its tensors or metadata changed.
  std::string refusal(Precision precision,
                      const std::function<void(SafetensorsFile&)>& change) const {
    const auto good = file(cat(precision, ".safetensors")), bad = file("bad.safetensors");
    if (!std::filesystem::exists(good)) quantize(precision);
    auto content = load_safetensors(good);
    change(content);
    save_safetensors(bad, content.tensors, content.metadata);
    return testing::data_error_of([&] { load_language_file(bad); });
  }

  testing::TempDir folder_;
  std::shared_ptr<LanguageModel> model_;
};

// Of the integers; bfloat16 is closer than 8 bits of them.
double largest_value(Precision precision) {
  return double((1 << (std::min<int64_t>(facts_of(precision).bits, 8) - 1)) - 1);
}

TEST_F(Quantize, FilesHoldFewBitsAndLoadAsTheirFloats) {
  for (const Precision precision : stored_precisions()) {
    const auto result = quantize(precision);
    EXPECT_EQ(result.kind, "language");
    EXPECT_EQ(result.rounded, 2 * 4 + 1);
    EXPECT_GT(result.largest_error, 0);
    const double most = largest_value(precision);
    EXPECT_LT(result.mean_error, 1.4 / most);
    EXPECT_EQ(result.bytes_after,
              int64_t(std::filesystem::file_size(file(cat(result.precision, ".safetensors")))));
    const auto loaded = load_language_file(file(cat(result.precision, ".safetensors")));
    EXPECT_EQ(loaded.precision, precision);
    const auto before = state_dict(*model_), after = state_dict(*loaded.model);
    for (const auto& [name, tensor] : before) {
      const bool rounded = tensor.dim() == 2 && name.find("wpe") == std::string::npos &&
                           name.find("temp") == std::string::npos;
      EXPECT_EQ(torch::equal(tensor, after.at(name)), !rounded) << name;
      const double share =
          ((after.at(name) - tensor).abs().max() / tensor.abs().max().clamp_min(1e-9))
              .item<double>();
      EXPECT_LE(share, 0.53 / most) << precision << " " << name;
    }
  }
  EXPECT_EQ(load_language_file(file("model.safetensors")).precision, Precision::kFp32);
}

TEST_F(Quantize, RoundingAFileAgainChangesNothing) {
  for (const Precision precision : stored_precisions()) {
    quantize(precision);
    const auto again = file(cat("again-", precision, ".safetensors"));
    const auto result = quantize_model(file(cat(precision, ".safetensors")), again, precision);
    EXPECT_EQ(result.before, precision);
    EXPECT_EQ(result.largest_error, 0);
    const auto one = load_safetensors(file(cat(precision, ".safetensors"))),
               two = load_safetensors(again);
    ASSERT_EQ(one.tensors.size(), two.tensors.size());
    for (const auto& [name, tensor] : one.tensors) {
      EXPECT_TRUE(torch::equal(tensor, two.tensors.at(name))) << name;
    }
  }
}

// An engine on the loaded numbers computes what one on the first numbers does.
TEST_F(Quantize, EnginesFindTheSameIntegersAgain) {
  for (const Precision precision : integer_precisions()) {
    quantize(precision);
    model_->eval();
    LanguageEngine first(*model_, precision);
    LanguageEngine second(*load_language_file(file(cat(precision, ".safetensors"))).model,
                          precision);
    const auto ids = torch::tensor({{3, 1, 4, 1, 5, 9, 2, 6}}, torch::kLong);
    LanguageState one, two;
    EXPECT_TRUE(torch::equal(first.extend(ids, one), second.extend(ids, two))) << precision;
  }
}

TEST_F(Quantize, RefusesFilesThatDoNotHoldTogether) {
  const auto with = [](const char* name, const std::function<Tensor(const Tensor&)>& change) {
    return [=](SafetensorsFile& f) { f.tensors[name] = change(f.tensors.at(name).clone()); };
  };
  const std::string scale = std::string(kMap) + ".scale";
  EXPECT_NE(refusal(Precision::kInt8, [&](SafetensorsFile& f) { f.tensors.erase(scale); })
                .find("lacks '" + scale),
            std::string::npos);
  const auto filled = [](double value) {
    return [=](const Tensor& t) { return Tensor(t.clone()).index_put_({0}, value); };
  };
  for (const Precision precision : integer_precisions()) {
    for (const double value : {-1.0, double(NAN), double(INFINITY)}) {
      EXPECT_NE(
          refusal(precision, with(scale.c_str(), filled(value))).find("negative or not finite"),
          std::string::npos)
          << precision << " " << value;
    }
    const auto cut = [](const Tensor& t) { return t.slice(0, 1).contiguous(); };
    EXPECT_NE(refusal(precision, with(scale.c_str(), cut)).find(scale), std::string::npos);
    EXPECT_NE(refusal(precision, with(kMap, cut)).find(kMap), std::string::npos);
    const auto narrow = [](const Tensor& t) { return t.slice(1, 1).contiguous(); };
    EXPECT_NE(refusal(precision, with(kMap, narrow)).find(kMap), std::string::npos);
    const auto doubled = [](const Tensor& t) { return t.to(torch::kDouble); };
    EXPECT_NE(refusal(precision, with(scale.c_str(), doubled)).find(scale), std::string::npos);
    const auto flat = [](const Tensor& t) { return t.flatten(); };
    EXPECT_NE(refusal(precision, with(kTable, flat)).find(kTable), std::string::npos);
  }
  EXPECT_NE(refusal(Precision::kInt8, with(kMap, filled(-128))).find("outside -127 to 127"),
            std::string::npos);
  for (const int byte : {0x80, 0x08}) {
    EXPECT_NE(refusal(Precision::kInt4, with(kMap, filled(byte))).find("outside -7 to 7"),
              std::string::npos);
  }
  const auto vector = [](SafetensorsFile& f) {
    f.tensors["transformer.h.0.gamma1"] = torch::ones({36}, torch::kChar);
    f.tensors["transformer.h.0.gamma1.scale"] = torch::ones({36});
  };
  EXPECT_NE(refusal(Precision::kInt8, vector).find("only matrices"), std::string::npos);
  const auto extra = [&](SafetensorsFile& f) { f.tensors["nothing.scale"] = torch::ones({3}); };
  EXPECT_NE(refusal(Precision::kInt8, extra).find("nothing.scale"), std::string::npos);
  const auto named = [](SafetensorsFile& f) { f.metadata[kPrecisionKey] = "int3"; };
  EXPECT_NE(refusal(Precision::kInt8, named).find("int3"), std::string::npos);
}

TEST_F(Quantize, RefusesBeforeAnythingIsWritten) {
  const auto in = file("model.safetensors");
  EXPECT_THROW(quantize_model(in, file("new.safetensors"), Precision::kFp32), Error);
  EXPECT_THROW(quantize_model(in, file("new.pth"), Precision::kInt8), Error);
  EXPECT_THROW(quantize_model(in, in, Precision::kInt8), Error);
  const torch::NoGradGuard no_grad;
  state_dict(*model_).at(kMap)[1][2] = NAN;
  LanguageInfo info;
  info.config = model_->config();
  save_language_file(file("nan.safetensors"), *model_, info);
  try {
    quantize_model(file("nan.safetensors"), file("new.safetensors"), Precision::kInt4);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(kMap), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(file("new.safetensors")));
}

}  // namespace
}  // namespace tost
