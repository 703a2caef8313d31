#include "tost/kinds/vision/engine.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/vision_file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace vision_engine_test {

using torch::Tensor;

VisionConfig small_config() {
  VisionConfig c;
  c.image_size = 32;
  c.patch = 4;
  c.dim = 32;
  c.depth = 2;
  c.heads = 4;
  c.classes = 10;
  return c;
}

// In evaluation mode, with statistics, norms and scales that are not those of a new model.
std::shared_ptr<ImageClassifier> used_model(const VisionConfig& config) {
  torch::manual_seed(7);
  auto model = make_image_classifier(config);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    const std::string& name = parameter.key();
    Tensor& value = parameter.value();
    if (name.find("gamma") != std::string::npos) value.normal_(0.3, 0.1);
    if (name.find("bias") != std::string::npos) value.normal_(0, 0.1);
    if (name.find("temp") != std::string::npos) value.uniform_(0.5, 2);
    if (name.find("registers") != std::string::npos) value.normal_();
    if (name.find("cls_token") != std::string::npos) value.normal_();
  }
  for (auto& buffer : model->named_buffers()) {
    if (buffer.key().find("running_mean") != std::string::npos) buffer.value().normal_(0, 0.2);
    if (buffer.key().find("running_var") != std::string::npos) buffer.value().uniform_(0.5, 2);
  }
  model->eval();
  return model;
}

Tensor pictures(const VisionConfig& c, int64_t batch) {
  torch::manual_seed(8);
  return torch::randn({batch, c.in_channels, c.image_size, c.image_size});
}

double relative_error(const Tensor& found, const Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

struct Bound {
  Precision precision;
  double error;
};
constexpr Bound kBounds[] = {
    {Precision::kFp32, 1e-5}, {Precision::kBf16, 2e-2}, {Precision::kInt8, 6e-2}};

void expect_agreement(const VisionConfig& config, const Tensor& images) {
  const torch::InferenceMode no_grad;
  const auto model = used_model(config);
  ASSERT_TRUE(VisionEngine::supports(*model));
  const Tensor expected = model->forward(images);
  for (const auto& [precision, error] : kBounds) {
    VisionEngine engine(*model, precision);
    const Tensor found = engine.forward(images);
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LE(relative_error(found, expected), error) << config.mixer << " " << precision;
    EXPECT_TRUE(torch::equal(found, engine.forward(images))) << precision;
  }
}

class VisionEngineTest : public ::testing::Test {
 protected:
  void TearDown() override { at::set_num_threads(before_); }
  const int before_ = at::get_num_threads();
};

TEST_F(VisionEngineTest, AgreesWithTheModuleForEveryMixer) {
  for (const auto& mixer : mixer_names()) {
    VisionConfig config = small_config();
    config.mixer = mixer;
    expect_agreement(config, pictures(config, 3));
  }
}

TEST_F(VisionEngineTest, AgreesForEveryForm) {
  const auto check = [](auto change, int64_t batch = 2) {
    VisionConfig config = small_config();
    change(config);
    expect_agreement(config, pictures(config, batch));
  };
  check([](VisionConfig& c) { c.registers = 3; });
  check([](VisionConfig& c) { c.qkv_bias = false; });
  check([](VisionConfig& c) { c.tokens_norm = false; });
  check([](VisionConfig& c) { c.in_channels = 1; });
  check([](VisionConfig& c) { c.stem_depth = 2; });
  for (const int64_t patch : {2, 4, 8}) {
    check([patch](VisionConfig& c) { c.stem_depth = 0, c.patch = patch, c.dim = 36; });
  }
  check([](VisionConfig& c) {
    c.patch = 2;
    c.image_size = 12;
  });
  check([](VisionConfig& c) {
    c.patch = 16;
    c.image_size = 64;
  });
  check([](VisionConfig& c) { c.dim = 36; });
  check([](VisionConfig& c) {
    c.class_blocks = 1;
    c.classes = 3;
  });
  check([](VisionConfig& c) {
    c.class_blocks = 3;
    c.mlp_ratio = 2.5;
  });
  check([](VisionConfig& c) {
    c.registers = 2;
    c.mixer = "softmax";
  });
  check(
      [](VisionConfig& c) {
        c.heads = 1;
        c.image_size = 4;
      },
      5);
}

TEST_F(VisionEngineTest, AgreesForRectangles) {
  const VisionConfig config = small_config();
  torch::manual_seed(9);
  expect_agreement(config, torch::randn({2, 3, 20, 36}));
  expect_agreement(config, torch::randn({2, 3, 36, 20}).transpose(2, 3));
}

TEST_F(VisionEngineTest, TakesPicturesOfEveryFloatingType) {
  const torch::InferenceMode no_grad;
  const VisionConfig config = small_config();
  const auto model = used_model(config);
  const Tensor images = pictures(config, 2).to(torch::kBFloat16).to(torch::kFloat);
  VisionEngine engine(*model, Precision::kFp32);
  const Tensor expected = engine.forward(images);
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    EXPECT_TRUE(torch::equal(engine.forward(images.to(type)), expected)) << type;
  }
}

TEST_F(VisionEngineTest, BatchAndThreadsChangeNothingBeyondRounding) {
  const torch::InferenceMode no_grad;
  const VisionConfig config = small_config();
  const auto model = used_model(config);
  const Tensor images = pictures(config, 7);
  const Tensor expected = model->forward(images);
  for (const auto& [precision, error] : kBounds) {
    VisionEngine engine(*model, precision);
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      for (const int64_t batch : {7, 1, 2, 3, 5}) {
        const Tensor some = images.narrow(0, 7 - batch, batch);
        EXPECT_LE(relative_error(engine.forward(some), expected.narrow(0, 7 - batch, batch)), error)
            << precision << ", batch " << batch << ", threads " << threads;
      }
    }
  }
}

TEST_F(VisionEngineTest, ManyPicturesGoInPasses) {
  const torch::InferenceMode no_grad;
  VisionConfig config = small_config();
  config.image_size = 8;
  const auto model = used_model(config);
  const Tensor images = pictures(config, 70);
  VisionEngine engine(*model, Precision::kFp32);
  EXPECT_LE(relative_error(engine.forward(images), model->forward(images)), 1e-5);
}

TEST_F(VisionEngineTest, AutocastOfTheCallerChangesNothing) {
  const auto config = small_config();
  const auto model = used_model(config);
  const Tensor images = pictures(config, 2);
  VisionEngine first(*model, Precision::kFp32), second(*model, Precision::kFp32);
  const Tensor plain = first.forward(images);
  const DeviceAutocast autocast(Autocast::kBfloat16);
  EXPECT_TRUE(torch::equal(second.forward(images), plain));
}

TEST_F(VisionEngineTest, NanStaysInItsPicture) {
  const torch::InferenceMode no_grad;
  const VisionConfig config = small_config();
  const auto model = used_model(config);
  Tensor images = pictures(config, 3);
  images[1][0][5][6] = NAN;
  for (const auto& [precision, error] : kBounds) {
    VisionEngine engine(*model, precision);
    const Tensor broken = engine.forward(images).isnan();
    EXPECT_TRUE(broken[1].all().item<bool>()) << precision;
    EXPECT_FALSE(broken[0].any().item<bool>()) << precision;
    EXPECT_FALSE(broken[2].any().item<bool>()) << precision;
  }
}

TEST_F(VisionEngineTest, SpeaksOfWrongImagesAndNames) {
  const VisionConfig config = small_config();
  const auto model = used_model(config);
  EXPECT_THROW(VisionEngine(*model, Precision::kInt4), Error);
  VisionEngine engine(*model, Precision::kFp32);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {2, 1, 32, 32}, {2, 3, 30, 32}, {3, 32, 32}, {0, 3, 32, 32}, {1, 3, 0, 32}}) {
    EXPECT_THROW(engine.forward(torch::rand(sizes)), Error) << sizes;
  }
  EXPECT_THROW(engine.forward(torch::ones({1, 3, 32, 32}, torch::kInt)), Error);
  VisionConfig linear = config;
  linear.architecture = "linear";
  const auto baseline = make_image_classifier(linear);
  EXPECT_FALSE(VisionEngine::supports(*baseline));
  EXPECT_THROW(VisionEngine(*baseline, Precision::kFp32), Error);
  const auto mixed = used_model(config);
  mixed->parameters().back().set_data(mixed->parameters().back().to(torch::kDouble));
  EXPECT_FALSE(VisionEngine::supports(*mixed));
}

TEST_F(VisionEngineTest, LaterChangesOfTheModelDoNotReachIt) {
  const torch::InferenceMode no_grad;
  const VisionConfig config = small_config();
  const auto model = used_model(config);
  const Tensor images = pictures(config, 2);
  VisionEngine engine(*model, Precision::kFp32);
  const Tensor before = engine.forward(images);
  for (auto& parameter : model->parameters()) parameter.zero_();
  EXPECT_TRUE(torch::equal(before, engine.forward(images)));
}

// The engine of a file, which needs no torch, and that of the model in it.
TEST_F(VisionEngineTest, AFileGivesTheLogitsOfItsModel) {
  const torch::InferenceMode no_grad;
  const testing::TempDir folder;
  const auto file = folder.path() / "model.safetensors";
  for (const char* mixer : {"tssa", "none", "means", "softmax", "xca"}) {
    ModelInfo info{small_config(), {"a", "b", "c"}, {.size = 32, .channels = 3}};
    info.config.mixer = mixer;
    info.config.classes = 3;
    info.config.registers = 2;
    const auto model = used_model(info.config);
    save_model_file(file, *model, info);
    EXPECT_EQ(pictures_run_in_engine(file), mixer != std::string("xca"));
    if (!pictures_run_in_engine(file)) {
      EXPECT_TRUE(testing::mentions(testing::error_of([&] { open_engine_vision(file, ""); }),
                                    "full program"));
      continue;
    }
    const Tensor images = pictures(info.config, 3);
    for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
      const auto opened = open_engine_vision(file, name_of(precision));
      Tensor logits = torch::empty({3, 3});
      opened.engine->forward(images.const_data_ptr<float>(), 3, 32, 32,
                             logits.mutable_data_ptr<float>());
      const auto expected = VisionEngine(*model, precision).forward(images);
      EXPECT_TRUE(torch::equal(logits, expected)) << mixer << " " << precision;
    }
  }
}

// Dictionaries are for modules: tssa runs in the engine, but not with them.
TEST_F(VisionEngineTest, RefusesDictionariesByName) {
  const testing::TempDir folder;
  const auto file = folder.path() / "model.safetensors";
  for (const std::string mlp : {"tied", "ista"}) {
    ModelInfo info{small_config(), {"a", "b", "c"}, {.size = 32, .channels = 3}};
    info.config.mlp = mlp;
    info.config.classes = 3;
    const auto model = used_model(info.config);
    save_model_file(file, *model, info);
    EXPECT_FALSE(VisionEngine::supports(*model));
    EXPECT_FALSE(pictures_run_in_engine(file));
    EXPECT_TRUE(testing::mentions(testing::error_of([&] { open_engine_vision(file, ""); }),
                                  "MLP '" + mlp + "' needs the full program"));
    const torch::InferenceMode no_grad;
    const Tensor images = pictures(info.config, 2);
    EXPECT_TRUE(torch::equal(load_model_file(file).model->forward(images), model->forward(images)));
  }
}

struct Recording {
  const char* folder;
  const char* mixer;
  int64_t patch;
};

// The official code's logits of the models in its recordings.
TEST_F(VisionEngineTest, GivesTheOfficialLogits) {
  for (const Recording& r :
       {Recording{"vision_tssa_p16", "tssa", 16}, Recording{"vision_tssa_p8_rect", "tssa", 8},
        Recording{"vision_softmax_p16", "softmax", 16}, Recording{"vision_xca_p16", "xca", 16}}) {
    TOST_SHARED_OR_SKIP(folder, std::string("parity/") + r.folder);
    const torch::InferenceMode no_grad;
    VisionConfig config = small_config();
    config.mixer = r.mixer;
    config.patch = r.patch;
    config.image_size = 64;
    const auto state = load_safetensors(folder / "state.safetensors").tensors;
    config.qkv_bias = state.count("blocks.0.attn.qkv.bias") > 0;
    const auto model = make_image_classifier(config, WeightInit::kNone);
    load_state_dict(*model, state);
    model->eval();
    const auto expected = load_safetensors(folder / "expected.safetensors").tensors;
    VisionEngine engine(*model, Precision::kFp32);
    EXPECT_LE(relative_error(engine.forward(expected.at("input")), expected.at("logits")), 1e-4)
        << r.folder;
  }
}

}  // namespace vision_engine_test
}  // namespace tost
