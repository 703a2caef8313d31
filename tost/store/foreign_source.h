// Opens weights of other programs: files of torch.save, whose code is never run, and safetensors
// files with the config.json next to them.
//
// Torch files hold weights under "model" or "state_dict" and averaged weights under "model_ema" or
// "state_dict_ema", or are themselves a dict of tensors. The prefixes "_orig_mod." and "module."
// are removed from all names, and "transformer." is added to names of GPT-2.
#pragma once

#include <filesystem>
#include <functional>

#include "tost/engine/foreign_model.h"
#include "tost/nn/state_dict.h"
#include "tost/store/weights_file.h"

namespace tost {

// A set of weights with functions that read its tensors.
struct ForeignWeights : ForeignModel {
  std::function<ModelFacts()> facts;
  std::function<StateDict()> read;  // by plain_name()
};

// Whether a file is one of torch.save, by its name (.pth, .pt or .bin) or, if the name does not end
// in .safetensors, by its first bytes.
bool is_torch_checkpoint(const std::filesystem::path& file);

// Opens weights and reads only their names and shapes. Throws data Errors naming the file.
ForeignWeights open_foreign_weights(const std::filesystem::path& file, Weights weights);

// Whether a model file is of another program: a file of torch.save, or a safetensors file without
// this program's metadata. Throws a data Error if the file cannot be read.
bool is_foreign_checkpoint(const std::filesystem::path& file);

// The kind of the model, "vision" or "language". Reads the same parts of a file and throws the same
// Errors as open_foreign_weights().
std::string foreign_kind(const std::filesystem::path& file, Weights weights);

// Throws a data Error unless the weights are of `kind`; `wanted` is the kind with an article, such
// as "an image classifier".
void expect_kind(const ForeignWeights& weights, const char* kind, const char* wanted);

}  // namespace tost
