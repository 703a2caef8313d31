// The architecture of a checkpoint in the official training scripts' layout: what names and shapes
// of its tensors tell, and what only its training arguments do.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tost/io/torch_file.h"
#include "tost/io/torch_model.h"
#include "tost/models/language_config.h"
#include "tost/models/vision_config.h"

namespace tost {

// One set of weights of a torch file, described without reading a weight.
struct OfficialCheckpoint {
  std::shared_ptr<const TorchFile> file;
  PickleId weights = PickleTree::kNoneId;  // the dict of tensors
  std::string key;                         // under which the file holds it, for messages
  NamedShapes shapes;                      // by plain_name()
  std::string kind;                        // "vision" or "language"
  nlohmann::ordered_json model;            // as recognise_models() tells
};

// `name` without the "_orig_mod." of torch.compile and the "module." of data parallelism.
std::string plain_name(std::string name);

// Heads come from the weights where these show them, else from args.model by the presets of that
// name, whatever its size; sides and normalisation as in args.input_size and args.tokens_norm, else
// 224 and on. Checked by validate(). Throws a data Error that says what the file does not tell.
VisionConfig official_vision_config(const OfficialCheckpoint& checkpoint);

// Heads come from the weights, else from n_head in `model_args` or `config`.
LanguageConfig official_language_config(const OfficialCheckpoint& checkpoint);

}  // namespace tost
