// What checkpoints hold in addition to weights: the training arguments in torch files, and the
// config.json of model hubs. Free of torch.
#pragma once

#include <filesystem>

#include "tost/io/torch_file.h"
#include "tost/store/foreign_model.h"

namespace tost {

// The key of a torch file under which this program keeps the description of the model, as JSON.
inline constexpr char kDescriptionKey[] = "tost";

// args of the official vision training; model_args and config of the official language training and
// of nanoGPT. Throws a data Error for a number that cannot be one.
ModelFacts torch_facts(const TorchFile& file);

// The config.json of timm ("architecture", "pretrained_cfg") and of Hugging Face's transformers
// (GPT-2). No facts where there is no such file. Throws a data Error naming it for what is not JSON
// object, nested deeper than 64 levels, or of a wrong type.
ModelFacts config_file_facts(const std::filesystem::path& file);

}  // namespace tost
