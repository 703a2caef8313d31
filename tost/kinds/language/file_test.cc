#include "tost/kinds/language/file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace language_file_test {

namespace fs = std::filesystem;
using nlohmann::json;

LanguageInfo tiny_info() {
  LanguageInfo info;
  info.config.vocab = 257;
  info.config.block = 16;
  info.config.dim = 8;
  info.config.depth = 2;
  info.config.heads = 2;
  info.config.options.conv = 3;
  info.tokenizer = tokenizer_from_json({{"kind", "bytes"}}, "test");
  info.training = {{"data", "somewhere"}};
  return info;
}

class LanguageFile : public ::testing::Test {
 protected:
  fs::path save(std::map<std::string, std::string> metadata) {
    const auto model = make_language_model(tiny_info().config);
    const fs::path file = folder_.path() / "model.safetensors";
    save_safetensors(file, state_dict(*model), metadata);
    return file;
  }
  void expect_refused(const fs::path& file, const std::string& part) {
    try {
      load_language_file(file);
      FAIL() << "accepted; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  testing::TempDir folder_;
};

TEST_F(LanguageFile, MixersOfVersion010AreReadByTheirNewNamesOrRefused) {
  auto info = tiny_info();
  info.config.mixer = "tssa-means";
  info.config.hybrid_mixer = "tssa-uniform";
  info.config.hybrid_every = 2;
  const fs::path file = folder_.path() / "old.safetensors";
  save_language_file(file, *make_language_model(info.config), info);
  const auto config = load_language_file(file).info.config;
  EXPECT_EQ(config.mixer, "means");
  EXPECT_EQ(config.hybrid_mixer, "uniform");
  info.config.mixer = "tssa-means-uniform";
  expect_refused(save(to_metadata(info)), "'tssa-means-uniform' was dropped; only earlier builds");
}

TEST_F(LanguageFile, ComesBackWhole) {
  torch::manual_seed(3);
  const auto info = tiny_info();
  const auto model = make_language_model(info.config);
  model->eval();
  const fs::path file = folder_.path() / "model.safetensors";
  save_language_file(file, *model, info);
  EXPECT_EQ(model_kind(file), "language");
  const auto loaded = load_language_file(file);
  EXPECT_EQ(to_json(loaded.info), to_json(info));
  const auto ids = torch::randint(0, 257, {1, 16});
  EXPECT_TRUE(torch::equal(loaded.model->forward(ids), model->forward(ids)));
}

TEST_F(LanguageFile, WorksWithoutTokenizer) {
  auto info = tiny_info();
  info.tokenizer = nullptr;
  EXPECT_EQ(load_language_file(save(to_metadata(info))).info.tokenizer, nullptr);
}

TEST_F(LanguageFile, RefusesWhatDoesNotFit) {
  auto metadata = to_metadata(tiny_info());
  metadata["tost.kind"] = "vision";
  expect_refused(save(metadata), "holds a vision model");
  metadata = to_metadata(tiny_info());
  metadata.erase("tost.tokenizer");
  expect_refused(save(metadata), "tost.tokenizer");
  metadata = to_metadata(tiny_info());
  metadata["tost.config"] = "{";
  expect_refused(save(metadata), "not JSON");
  auto info = tiny_info();
  info.config.vocab = 100;
  expect_refused(save(to_metadata(info)), "257 tokens for a model of 100");
  info = tiny_info();
  info.config.dim = 16;
  expect_refused(save(to_metadata(info)), "does not fit its own description");
  info = tiny_info();
  info.config.block = 0;
  expect_refused(save(to_metadata(info)), "'block' is 0");
}

TEST_F(LanguageFile, RefusesWeightsThatAreNotFinite) {
  const auto info = tiny_info();
  auto state = state_dict(*make_language_model(info.config));
  state.at("transformer.h.1.attn.temp") =
      torch::full_like(state.at("transformer.h.1.attn.temp"), INFINITY);
  const fs::path file = folder_.path() / "model.safetensors";
  save_safetensors(file, state, to_metadata(info));
  expect_refused(file, "tensor 'transformer.h.1.attn.temp' that are not finite");
}

TEST_F(LanguageFile, RefusesDeepNesting) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  auto metadata = to_metadata(tiny_info());
  metadata["tost.training"] = nested(64);
  EXPECT_EQ(load_language_file(save(metadata)).info.training.dump(), nested(64));
  for (const std::string& text : {nested(65), nested(300'000), std::string(300'000, '[')}) {
    metadata["tost.training"] = text;
    expect_refused(save(metadata), "is nested deeper than 64 levels");
  }
  std::string objects;
  for (int i = 0; i < 300'000; ++i) objects += "{\"a\":";
  const std::map<std::string, std::string> session = {{"tost.session", objects}};
  EXPECT_THROW(metadata_json(session, "tost.session", "it"), Error);
  EXPECT_THROW(expect_keys(json::parse(nested(10'000)), {"a"}, "it"), Error);
}

TEST_F(LanguageFile, KindOfSomethingElseIsRefused) {
  EXPECT_THROW(model_kind(folder_.path() / "nothing"), Error);
  EXPECT_EQ(model_kind(save({})), "language");  // the names of its tensors tell
  for (const std::string& bytes : {std::string(), std::string(8, '\xff'), std::string("short")}) {
    const fs::path file = folder_.path() / "odd.safetensors";
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_THROW(model_kind(file), Error);
  }
}

}  // namespace language_file_test
}  // namespace tost
