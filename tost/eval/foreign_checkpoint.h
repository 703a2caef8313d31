// Models from weights that others have saved (foreign_source.h).
#pragma once

#include <filesystem>
#include <string>

#include "tost/eval/language_file.h"
#include "tost/eval/model_file.h"

namespace tost {

// Whether a model file does not describe itself as this program's do: a file of torch.save, or a
// safetensors file without this program's metadata. Throws a data Error where it cannot be read.
bool is_foreign_checkpoint(const std::filesystem::path& file);

// "vision" or "language". Reads names and shapes alone. This and the functions below throw data
// Errors in one sentence that names the file, and the tensor where one does not fit.
std::string foreign_kind(const std::filesystem::path& file, Weights weights = Weights::kRaw);

// Where the file does not say how pictures are prepared, they are as by the official evaluation
// command: the shorter side to args.input_size (224 without), bicubic, the central square,
// ImageNet's mean and deviation. Classes without names are called "0", "1", ….
LoadedModel load_foreign_vision(const std::filesystem::path& file, Weights weights = Weights::kRaw);

// Without a tokenizer where the file holds none. Models without LayerScale, nanoGPT's and GPT-2,
// get one of 1.
LoadedLanguage load_foreign_language(const std::filesystem::path& file,
                                     Weights weights = Weights::kRaw);

}  // namespace tost
