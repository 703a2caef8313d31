// Checkpoints of the official training scripts, files of torch.save, as models of this program.
// They are read as data (see torch_file.h): nothing in them is ever executed.
//
// Weights lie under "model" (or timm's "state_dict"), averaged ones under "model_ema" (or
// "state_dict_ema"); a file that is itself a dict of tensors holds raw weights. The prefixes
// "_orig_mod." and "module." are taken off the names.
#pragma once

#include <filesystem>
#include <string>

#include "tost/eval/language_file.h"
#include "tost/eval/model_file.h"

namespace tost {

// Whether a model file is one of torch.save: its name ends in .pth, .pt or .bin, or it begins as
// such a file does. A name ending in .safetensors never is.
bool is_torch_checkpoint(const std::filesystem::path& file);

// "vision" or "language". Reads names and shapes alone. This and the functions below throw data
// Errors in one sentence that names the file, and the tensor where one does not fit.
std::string official_kind(const std::filesystem::path& file, Weights weights = Weights::kRaw);

// Pictures are prepared as by the official evaluation command: the shorter side to args.input_size
// (224 without), bicubic, the central square, ImageNet's mean and deviation. Classes are named "0",
// "1", …, since the file does not name them.
LoadedModel load_official_vision(const std::filesystem::path& file,
                                 Weights weights = Weights::kRaw);

// Without a tokenizer, since the file holds none. nanoGPT's models, which have no LayerScale, get
// one of 1.
LoadedLanguage load_official_language(const std::filesystem::path& file,
                                      Weights weights = Weights::kRaw);

}  // namespace tost
