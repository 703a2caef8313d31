// A trained image classifier in one safetensors file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/model_info.h"
#include "tost/store/weights_file.h"
#include "tost/torch.h"

namespace tost {

struct LoadedModel {
  std::shared_ptr<ImageClassifier> model;  // float32, in evaluation mode
  ModelInfo info;
  std::filesystem::path file;      // what was read
  std::string precision = "fp32";  // that the file holds its weights in (quantized_file.h)
};

// Reads safetensors files of this program and the checkpoints of foreign.h.
// Throws a data Error naming the file and, where weights do not fit, the tensor and both shapes, or
// the first tensor whose values are not finite.
LoadedModel load_model_file(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Atomic and durable: the old file stays whole on failure.
void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info);

}  // namespace tost
