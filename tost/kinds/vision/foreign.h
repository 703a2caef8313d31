// Image classifiers from weights that others have saved (foreign_source.h).
#pragma once

#include <filesystem>

#include "tost/kinds/vision/model_file.h"

namespace tost {

// Throws data Errors in one sentence that names the file, and the tensor where one does not fit.
// Where the file does not say how pictures are prepared, they are as by the official evaluation
// command: the shorter side to args.input_size (224 without), bicubic, the central square,
// ImageNet's mean and deviation. Classes without names are called "0", "1", ….
LoadedModel load_foreign_vision(const std::filesystem::path& file, Weights weights = Weights::kRaw);

}  // namespace tost
