// A trained image classifier in one safetensors file, and finding that file in a run.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tost/eval/model_info.h"
#include "tost/models/image_classifier.h"
#include "tost/torch.h"

namespace tost {

enum class Weights { kRaw, kEma };

struct LoadedModel {
  std::shared_ptr<ImageClassifier> model;  // float32, in evaluation mode
  ModelInfo info;
  std::filesystem::path file;      // what was read
  std::string precision = "fp32";  // that the file holds its weights in (quantized_file.h)
};

// The file that `path` means: itself, the model of a checkpoint folder (or the index of its shards,
// safetensors_index.h), or that of the best (else the latest, else the newest intact) checkpoint of
// a run folder. kEma: the averaged weights; a file of torch.save holds them beside the raw ones.
// Throws a data Error where there is none.
std::filesystem::path find_model_file(const std::filesystem::path& path,
                                      Weights weights = Weights::kRaw);

// The same for reading it: also a data Error where it differs from the manifest of its checkpoint.
std::filesystem::path find_intact_model_file(const std::filesystem::path& path,
                                             Weights weights = Weights::kRaw);

// Reads safetensors files of this program and the checkpoints of foreign_checkpoint.h.
// Throws a data Error naming the file and, where weights do not fit, the tensor and both shapes, or
// the first tensor whose values are not finite.
LoadedModel load_model_file(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Puts a model whose weights were read from `where` into evaluation mode. Throws a data Error that
// names the first tensor with a value that is not finite.
void finish_loading(torch::nn::Module& model, const std::string& where);

// Weights of a file, those in fewer bits too (quantized_file.h), into the model that its own
// description asks for, then finish_loading(). Throws a data Error about `where` where they do not
// fit it.
void take_described_weights(torch::nn::Module& model,
                            const std::map<std::string, torch::Tensor>& weights,
                            const std::string& where);

// Atomic and durable: the old file stays whole on failure.
void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info);

}  // namespace tost
