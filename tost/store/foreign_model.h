// What the names and shapes of tensors that others have saved tell of a model, and what only the
// other facts of the checkpoint tell. Free of torch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/store/recognise.h"

namespace tost {

// What a checkpoint holds in addition to its weights; empty where it holds nothing.
struct ModelFacts {
  std::string model;                // the name of its architecture
  std::string model_key = "model";  // under which it stands, for messages
  std::optional<int64_t> heads;     // of softmax language models
  std::string no_heads;             // why they are missing, for messages
  std::optional<int64_t> image_size;
  std::optional<bool> tokens_norm;
  std::optional<double> crop_ratio;
  std::string interpolation;
  std::vector<double> mean, std;
  std::vector<std::string> classes;
  std::string activation;  // of the MLP, by the names of Hugging Face
  // The description that this program wrote: to_json(ModelInfo) or to_json(LanguageInfo). Where it
  // is there, the other facts are not used.
  std::optional<nlohmann::json> description;
};

// One set of weights of a file, by names and shapes alone.
struct ForeignModel {
  std::string file;              // its path, for messages
  std::string key;               // under which the file holds them, for messages
  NamedShapes shapes;            // by plain_name()
  std::string kind;              // "vision" or "language"
  nlohmann::ordered_json model;  // as recognise_models() tells

  // A size that recognise_models() tells; 0 where it does not.
  int64_t told(const char* what) const;
  bool has(const std::string& name) const { return shapes.count(name) != 0; }
  // Side `d` of a tensor; a data Error where there is no such tensor or side.
  int64_t side(const std::string& name, size_t d) const;
};

// `name` without the "_orig_mod." of torch.compile and the "module." of data parallelism.
std::string plain_name(std::string name);

// Hidden units over width; a data Error for a width that is none.
double foreign_mlp_ratio(int64_t hidden, int64_t dim);

}  // namespace tost
