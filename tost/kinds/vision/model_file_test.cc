#include "tost/kinds/vision/model_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/manifest.h"
#include "tost/engine/metadata.h"
#include "tost/engine/run_layout.h"
#include "tost/io/image.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

ModelInfo small_info() {
  ModelInfo info;
  info.config = {.name = "custom",
                 .in_channels = 3,
                 .image_size = 16,
                 .patch = 4,
                 .dim = 16,
                 .depth = 1,
                 .heads = 2,
                 .classes = 3,
                 .class_blocks = 1};
  info.classes = {"cat", "dog", "emu"};
  info.preprocess = {.size = 16, .channels = 3, .mean = {0.5, 0.5, 0.5}, .std = {0.25, 0.25, 0.25}};
  return info;
}

std::string load_error(const fs::path& path, Weights weights = Weights::kRaw) {
  return testing::data_error_of([&] { load_model_file(path, weights); });
}

using testing::mentions;

class ModelFile : public ::testing::Test {
 protected:
  ModelFile() {
    torch::manual_seed(1);
    model = make_image_classifier(info.config);
    model->eval();
  }
  testing::TempDir dir;
  ModelInfo info = small_info();
  std::shared_ptr<ImageClassifier> model;
};

TEST_F(ModelFile, RoundTripGivesTheSameLogits) {
  const fs::path file = dir.path() / "m.safetensors";
  save_model_file(file, *model, info);
  const LoadedModel loaded = load_model_file(file);
  EXPECT_EQ(to_json(loaded.info), to_json(info));
  EXPECT_FALSE(loaded.model->is_training());
  const torch::Tensor images = torch::randn({2, 3, 16, 16});
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(loaded.model->forward(images), model->forward(images)));
}

TEST_F(ModelFile, FindsTheBestThenTheLatestCheckpointOfARun) {
  const fs::path checkpoints = dir.path() / kCheckpointFolder;
  for (const int64_t step : {3, 5}) {
    make_directories(checkpoints / checkpoint_name(step));
    save_model_file(checkpoints / checkpoint_name(step) / kModelFile, *model, info);
  }
  write_file_atomic(checkpoints / kLatestPointer, "step-000000005\n");
  EXPECT_EQ(load_model_file(dir.path()).file, checkpoints / "step-000000005" / kModelFile);
  write_file_atomic(checkpoints / kBestPointer, "step-000000003\n");
  EXPECT_EQ(load_model_file(dir.path()).file, checkpoints / "step-000000003" / kModelFile);
  EXPECT_EQ(find_model_file(checkpoints / "step-000000005"),
            checkpoints / "step-000000005" / kModelFile);
  EXPECT_TRUE(mentions(load_error(dir.path(), Weights::kEma), "averaged"));
  std::filesystem::remove(checkpoints / "step-000000003" / kModelFile);
  EXPECT_TRUE(mentions(load_error(dir.path()), "model.safetensors' is missing"));
}

// One bit of a weight would only give other numbers.
TEST_F(ModelFile, AFlippedBitInACheckpointIsRefused) {
  const fs::path folder = dir.path() / kCheckpointFolder / checkpoint_name(3);
  make_directories(folder);
  save_model_file(folder / kModelFile, *model, info);
  for (const char* file : {kOptimizerFile, kStateFile}) write_file_atomic(folder / file, "x");
  write_file_atomic(folder / kManifestFile, make_manifest(folder).dump());
  EXPECT_EQ(load_model_file(dir.path()).file, folder / kModelFile);
  std::string bytes = read_file(folder / kModelFile, 1 << 20);
  bytes[bytes.size() - 2] ^= 1;
  write_file_atomic(folder / kModelFile, bytes);
  write_file_atomic(dir.path() / kCheckpointFolder / kLatestPointer, "step-000000003\n");
  for (const fs::path& path : {dir.path(), folder, folder / kModelFile}) {
    EXPECT_TRUE(mentions(load_error(path), "is damaged: its manifest says")) << path;
  }
  fs::rename(folder / kModelFile, dir.path() / "alone.safetensors");
  EXPECT_EQ(load_error(dir.path() / "alone.safetensors"), "");  // nothing says that it is wrong
}

// They look sound, and predictions of them are "nan %".
TEST_F(ModelFile, WeightsThatAreNotFiniteAreRefusedByName) {
  const torch::NoGradGuard no_grad;
  const fs::path file = dir.path() / "m.safetensors";
  for (const double value : {std::nan(""), double(INFINITY), -double(INFINITY)}) {
    auto bias = state_dict(*model).at("head.bias");
    bias[2] = value;
    save_model_file(file, *model, info);
    const std::string error = load_error(file);
    EXPECT_TRUE(mentions(error, "tensor 'head.bias' that are not finite")) << error;
    EXPECT_TRUE(mentions(error, "m.safetensors")) << error;
    bias[2] = 0;
  }
}

TEST_F(ModelFile, PointersCannotLeaveTheRun) {
  make_directories(dir.path() / kCheckpointFolder);
  for (const char* content : {"../../etc", "/etc", "step-1", "", "step-000000009"}) {
    write_file_atomic(dir.path() / kCheckpointFolder / kLatestPointer, content);
    EXPECT_TRUE(mentions(load_error(dir.path()), "should name a checkpoint folder")) << content;
  }
}

TEST_F(ModelFile, BadFilesAreNamedInOneSentence) {
  const fs::path file = dir.path() / "m.safetensors";
  EXPECT_TRUE(mentions(load_error(file), "does not exist"));
  for (const char* preset : {"tost_nano_p4", "tost_gpt_char"}) {
    EXPECT_TRUE(mentions(load_error(preset), cat("tost train --model ", preset))) << preset;
  }
  save_safetensors(file, {{"a", torch::ones({2})}}, {});
  EXPECT_TRUE(mentions(load_error(file), "no model known here"));
  ModelInfo wrong = info;
  wrong.config.dim = 32;  // the file describes a wider model than its weights are
  save_model_file(file, *model, wrong);
  EXPECT_TRUE(mentions(load_error(file), "[16]") || mentions(load_error(file), "16"))
      << load_error(file);
  wrong = info;
  wrong.classes.pop_back();
  save_model_file(file, *model, wrong);
  EXPECT_TRUE(mentions(load_error(file), "2 class names for a model of 3 classes"));
  auto metadata = to_metadata(info);
  metadata["tost.preprocess"] = "{\"size\": 16";
  save_safetensors(file, state_dict(*model), metadata);
  EXPECT_TRUE(mentions(load_error(file), "not JSON"));
  metadata = to_metadata(info);
  metadata["tost.preprocess"] = "{\"sise\": 16}";
  save_safetensors(file, state_dict(*model), metadata);
  EXPECT_TRUE(mentions(load_error(file), "size")) << load_error(file);
}

TEST_F(ModelFile, MixersOfVersion010AreReadByTheirNewNamesOrRefused) {
  const fs::path file = dir.path() / "m.safetensors";
  info.config.mixer = "tssa-running-means";
  save_model_file(file, *make_image_classifier(info.config), info);
  EXPECT_EQ(load_model_file(file).info.config.mixer, "means");
  info.config.mixer = "tssa-means";
  save_model_file(file, *model, info);
  EXPECT_TRUE(mentions(load_error(file), "'tssa-means' was dropped; only earlier builds"))
      << load_error(file);
}

TEST(Classes, AreComparedInNumberThenByName) {
  const auto refusal = [](const std::vector<std::string>& found) {
    return testing::usage_error_of([&] { check_classes(found, {"cat", "dog"}, "pets"); });
  };
  EXPECT_EQ(refusal({"cat", "dog"}), "");
  EXPECT_EQ(refusal({"cat"}),
            "'pets' has 1 class but the model has 2; give data of the classes it was "
            "trained on.");
  EXPECT_EQ(refusal({"cat", "emu"}),
            "Class 2 of 'pets' is 'emu' but the model's is 'dog'; give data whose labels are the "
            "model's.");
}

TEST_F(ModelFile, PredictRanksAndNamesBadImages) {
  Image image(20, 24, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t(i * 7);
  const std::string good = dir.path() / "good.png", bad = dir.path() / "bad.png";
  write_png(good, image);
  write_file_atomic(bad, "not a picture");
  const auto predictions =
      predict_images(*model, info, {good, good}, {.top_k = 9, .batch_size = 1});
  ASSERT_EQ(predictions.size(), 2u);
  ASSERT_EQ(predictions[0].top.size(), 3u);
  double sum = 0;
  for (const RankedClass& ranked : predictions[0].top) {
    sum += ranked.probability;
    EXPECT_EQ(ranked.name, info.classes[size_t(ranked.label)]);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_GE(predictions[0].top[0].probability, predictions[0].top[1].probability);
  EXPECT_EQ(predictions[0].top[0].probability, predictions[1].top[0].probability);
  try {
    predict_images(*model, info, {good, bad});
    FAIL() << "must name the bad image";
  } catch (const Error& error) {
    EXPECT_TRUE(mentions(error.what(), "bad.png")) << error.what();
  }
}

}  // namespace
}  // namespace tost
