// Recognises models in checkpoints of other programs by the names and shapes of their tensors, by
// training arguments in torch files, and by the config.json of model hubs. Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/io/torch_file.h"

namespace tost {

using NamedShapes = std::map<std::string, std::vector<int64_t>>;

// Describes every set of weights in a file, such as "model.…" and "model_ema.…", by an object
// {"prefix", "family", "mixer", "dim", "depth", "heads", …} with the values that names and shapes
// show. Families: the official image classifiers ToST, XCiT and ViT, timm's ViT, ToST's language
// models, and nanoGPT/GPT-2. Empty if no model is recognised.
nlohmann::ordered_json recognise_models(const NamedShapes& shapes);

// Facts that a checkpoint states in addition to its weights; members without a fact are empty.
struct ModelFacts {
  std::string model;                // the name of its architecture
  std::string model_key = "model";  // its key, for messages
  std::optional<int64_t> heads;     // of softmax language models
  std::string no_heads;             // why they are missing, for messages
  std::optional<int64_t> image_size;
  std::optional<bool> tokens_norm;
  std::optional<double> crop_ratio;
  std::string interpolation;
  std::vector<double> mean, std;
  std::vector<std::string> classes;
  std::string activation;  // of the MLP, by the names of Hugging Face
  // The description of the model by this program: to_json(ModelInfo) or to_json(LanguageInfo). A
  // description by this program has priority over all other facts.
  std::optional<nlohmann::json> description;
};

// The names and shapes of one set of weights of a file.
struct ForeignModel {
  std::string file;              // its path, for messages
  std::string key;               // under which the file holds them, for messages
  NamedShapes shapes;            // by plain_name()
  std::string kind;              // "vision" or "language"
  nlohmann::ordered_json model;  // of recognise_models()

  // The size under a key of `model`; 0 if names and shapes do not show it.
  int64_t size(const char* what) const;
  bool has(const std::string& name) const { return shapes.count(name) != 0; }
  // The size of dimension `d` of a tensor. Throws a data Error for a missing tensor or dimension.
  int64_t side(const std::string& name, size_t d) const;
};

// Removes the "_orig_mod." of torch.compile and the "module." of data parallelism from `name`.
std::string plain_name(std::string name);

// Hidden units of the MLP divided by the width. Throws a data Error for a width below 1.
double foreign_mlp_ratio(int64_t hidden, int64_t dim);

// Reads the args of the official vision training, or the model_args and config of the official
// language training and of nanoGPT. Throws a data Error for an impossible value.
ModelFacts torch_facts(const TorchFile& file);

// Reads the config.json of timm ("architecture", "pretrained_cfg") or of transformers (GPT-2), if
// there is one. Throws a data Error naming the file if it is no JSON object, is nested deeper than
// 64 levels, or has a value of a wrong type.
ModelFacts config_file_facts(const std::filesystem::path& file);

}  // namespace tost
