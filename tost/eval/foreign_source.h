// Opening weights that others have saved: files of torch.save, read as data and never executed, and
// safetensors files without this program's description, with the config.json beside them.
//
// In torch files weights lie under "model" (or timm's "state_dict"), averaged ones under
// "model_ema" (or "state_dict_ema"); a file that is itself a dict of tensors holds raw weights. The
// prefixes "_orig_mod." and "module." are taken off all names, and GPT-2's get their
// "transformer.".
#pragma once

#include <filesystem>
#include <functional>

#include "tost/eval/foreign_config.h"
#include "tost/eval/model_file.h"
#include "tost/models/state_dict.h"

namespace tost {

// What can be told, and read, of one set of weights.
struct ForeignWeights : ForeignModel {
  std::function<ModelFacts()> facts;
  std::function<StateDict()> read;  // by plain_name()
};

// Whether a file is one of torch.save: its name ends in .pth, .pt or .bin, or it begins as such a
// file does. A name ending in .safetensors never is.
bool is_torch_checkpoint(const std::filesystem::path& file);

// Throws data Errors in one sentence that names the file. Reads names and shapes alone.
ForeignWeights open_foreign_weights(const std::filesystem::path& file, Weights weights);

}  // namespace tost
