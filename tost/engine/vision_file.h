// A trained image classifier in one safetensors file: weights, architecture, classes and
// preprocessing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/engine/arrays_file.h"
#include "tost/engine/predict.h"
#include "tost/engine/vision_engine.h"
#include "tost/io/preprocess.h"

namespace tost {

// The description of a model, which its file contains.
struct ModelInfo {
  VisionConfig config;
  std::vector<std::string> classes;  // by label; config.classes of them
  Preprocess preprocess;
};

nlohmann::json to_json(const Preprocess& preprocess);
nlohmann::json to_json(const ModelInfo& info);

// Reads a description, whatever its mixer. Throws a data Error naming `where` and the key for
// unknown or missing keys, wrong types, impossible values, and class names or input sides that do
// not fit the model.
ModelInfo model_info_from_json(const nlohmann::json& json, const std::string& where);

// Writes a description as metadata of a safetensors file: "tost.config", "tost.classes",
// "tost.preprocess" (JSON texts) and "format": "pt", which other readers require.
std::map<std::string, std::string> to_metadata(const ModelInfo& info);
// The inverse. Throws as model_info_from_json(), and for a model of another kind.
ModelInfo model_info_of(const std::map<std::string, std::string>& metadata,
                        const std::string& where);

// Whether a file, as far as its header says, is an image classifier of this program that the engine
// runs without help. False for files of others, which may be image classifiers all the same.
bool pictures_run_in_engine(const std::filesystem::path& file);

struct OpenedVision {
  std::unique_ptr<PictureEngine> engine;
  ModelInfo info;
  Precision precision = Precision::kFp32;  // in which the engine computes

  // Maps images [count, channels, size, size] of preprocessed values to logits [count, classes].
  void logits(const float* images, int64_t count, float* to) const;
};

// Opens such a file. `precision` is as in ModelRequest. Throws a data Error naming the file where
// its tensors are not those of its model.
OpenedVision open_engine_vision(const std::filesystem::path& file, const std::string& precision);

// Opens a model from a file's content; `where` names the file in messages.
OpenedVision engine_vision_of(ArraysFile content, const std::string& where,
                              const std::string& precision);

// Logits [count, classes] of images [count, channels, size, size].
using LogitsOf = function_ref<void(const float* images, int64_t count, float* logits)>;

// Probabilities by class of each picture that fit_image() gave.
std::vector<std::vector<double>> classify_pictures(const ModelInfo& info,
                                                   const std::vector<Image>& fitted,
                                                   LogitsOf logits_of);

// Predicts each picture in order, `batch` at a time. Throws a data Error naming the first image
// that cannot be read, a usage Error for top < 1, batch < 1 or no paths.
std::vector<Prediction> predict_pictures(const ModelInfo& info,
                                         const std::vector<std::string>& paths, int64_t batch,
                                         int64_t top, LogitsOf logits_of);

}  // namespace tost
