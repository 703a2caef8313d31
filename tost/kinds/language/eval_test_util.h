// Tiny language models, and their opinions token by token, for the tests of this layer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/testing/temp_dir.h"
#include "tost/io/token_data.h"
#include "tost/io/token_test_util.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/file.h"

namespace tost::testing {

using Ids = std::vector<int64_t>;

// A byte model whose random weights are large enough for its opinions to differ.
inline std::shared_ptr<LanguageModel> tiny_model(const std::string& mixer,
                                                 const std::string& positions,
                                                 int64_t vocab = 257) {
  torch::manual_seed(3);
  LanguageConfig config;
  config.vocab = vocab;
  config.block = 12;
  config.dim = 16;
  config.depth = 2;
  config.heads = 2;
  config.layer_scale = 1;
  config.mixer = mixer;
  config.positions = positions;
  auto model = make_language_model(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() > 1) parameter.mul_(8);
  }
  model->eval();
  return model;
}

inline LoadedLanguage tiny_language(const std::string& mixer = "tssa",
                                    const std::string& positions = "learned") {
  LoadedLanguage language;
  language.model = tiny_model(mixer, positions);
  language.info = {.config = language.model->config(), .tokenizer = make_byte_tokenizer()};
  language.file = "model.safetensors";
  return language;
}

// log p(next | context), by a separate forward pass.
inline torch::Tensor log_probabilities(LanguageModel& model, const Ids& context) {
  const torch::NoGradGuard no_grad;
  const auto logits = model.forward(torch::tensor(context).unsqueeze(0));
  return logits[0][-1].to(torch::kDouble).log_softmax(0);
}

inline double loss_of(LanguageModel& model, const Ids& context, int64_t next) {
  return -log_probabilities(model, context)[next].item<double>();
}

inline Ids some_ids(int64_t count, int64_t vocab = 257) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back((i * i * 7 + 11 * i) % vocab);
  return ids;
}

inline TokenSource source_of(const Ids& ids) {
  return TokenSource(std::vector<int32_t>(ids.begin(), ids.end()), "it");
}

struct Setting {
  const char* mixer;
  const char* positions;
};
constexpr Setting kSettings[] = {
    {"tssa", "learned"}, {"softmax", "learned"}, {"tssa", "none"}, {"softmax", "none"}};

class LanguageFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const auto path = dir_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  TempDir dir_;
  LoadedLanguage language_ = tiny_language();
};

}  // namespace tost::testing
