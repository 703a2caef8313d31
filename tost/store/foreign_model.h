// Recognises models in checkpoints of other programs: by the names and shapes of their tensors, the
// training arguments in torch files, and the config.json of model hubs. Free of torch.
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

// One object for every set of weights among the names ("model.…", "model_ema.…", with _orig_mod. or
// module. before the names or not): {"prefix", "family", "mixer", "dim", "depth", "heads", …}, with
// the values that names and shapes give. Families: the official ToST's image classifiers and the
// XCiT and ViT models they are compared with, timm's ViT, ToST's language models and nanoGPT/GPT-2.
// Empty where none is recognised.
nlohmann::ordered_json recognise_models(const NamedShapes& shapes);

// The content of a checkpoint in addition to its weights; empty where there is none.
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
  // The description that this program wrote: to_json(ModelInfo) or to_json(LanguageInfo). If
  // present, the other facts are not used.
  std::optional<nlohmann::json> description;
};

// One set of weights of a file: only names and shapes.
struct ForeignModel {
  std::string file;              // its path, for messages
  std::string key;               // under which the file holds them, for messages
  NamedShapes shapes;            // by plain_name()
  std::string kind;              // "vision" or "language"
  nlohmann::ordered_json model;  // of recognise_models()

  // A size in `model`; 0 if names and shapes do not show it.
  int64_t size(const char* what) const;
  bool has(const std::string& name) const { return shapes.count(name) != 0; }
  // Side `d` of a tensor; a data Error where there is no such tensor or side.
  int64_t side(const std::string& name, size_t d) const;
};

// `name` without the "_orig_mod." of torch.compile and the "module." of data parallelism.
std::string plain_name(std::string name);

// Hidden units over width; a data Error for a width that is none.
double foreign_mlp_ratio(int64_t hidden, int64_t dim);

// args of the official vision training; model_args and config of the official language training and
// of nanoGPT. Throws a data Error for a number that cannot be one.
ModelFacts torch_facts(const TorchFile& file);

// The config.json of timm ("architecture", "pretrained_cfg") and of Hugging Face's transformers
// (GPT-2). No facts where there is no such file. Throws a data Error naming it if it is no JSON
// object, nested deeper than 64 levels, or has a value of a wrong type.
ModelFacts config_file_facts(const std::filesystem::path& file);

}  // namespace tost
