// A trained image classifier in one safetensors file.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/engine/vision_file.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/precision.h"
#include "tost/store/weights_file.h"
#include "tost/torch.h"

namespace tost {

using LoadedModel = Loaded<ImageClassifier, ModelInfo>;

// Reads safetensors files of this program, and weights of other programs (foreign_source.h).
// Throws a data Error naming the file, and the tensor whose shape does not fit or whose values are
// not finite.
LoadedModel load_model_file(const std::filesystem::path& path, Weights weights = Weights::kRaw);

// Saves atomically and durably: a failure does not change an old file.
void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info);

// For `tost bench model`, with the products of ImageClassifier::forward() on pictures of a side but
// those between tokens in attention.
std::unique_ptr<BenchModel> open_bench_vision(const BenchModelSource& source, bool file);
std::vector<Product> vision_products(const ImageClassifier& model, int64_t batch, int64_t side);

}  // namespace tost
