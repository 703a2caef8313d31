// Opens weights of other programs: files of torch.save, read as data and never executed, and
// safetensors files without this program's description, with the config.json in their folder.
//
// In torch files weights are under "model" (or timm's "state_dict"), averaged ones under
// "model_ema" (or "state_dict_ema"); a file that is itself a dict of tensors holds raw weights. The
// prefixes "_orig_mod." and "module." are taken off all names, and GPT-2's get their
// "transformer.".
#pragma once

#include <filesystem>
#include <functional>

#include "tost/nn/state_dict.h"
#include "tost/store/foreign_model.h"
#include "tost/store/weights_file.h"

namespace tost {

// One set of weights that can be read.
struct ForeignWeights : ForeignModel {
  std::function<ModelFacts()> facts;
  std::function<StateDict()> read;  // by plain_name()
};

// Whether a file is one of torch.save: its name ends in .pth, .pt or .bin, or it begins as such a
// file does. A name ending in .safetensors never is.
bool is_torch_checkpoint(const std::filesystem::path& file);

// Throws data Errors in one sentence that names the file. Reads only names and shapes.
ForeignWeights open_foreign_weights(const std::filesystem::path& file, Weights weights);

// Whether a model file does not describe itself as this program's do: a file of torch.save, or a
// safetensors file without this program's metadata. Throws a data Error where it cannot be read.
bool is_foreign_checkpoint(const std::filesystem::path& file);

// "vision" or "language". Reads only names and shapes. Throws data Errors as
// open_foreign_weights().
std::string foreign_kind(const std::filesystem::path& file, Weights weights);

// Throws a data Error unless the weights are of this kind; `wanted` names it with its article.
void expect_kind(const ForeignWeights& weights, const char* kind, const char* wanted);

}  // namespace tost
