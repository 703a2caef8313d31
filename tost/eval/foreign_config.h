// The architecture of weights that others have saved: what names and shapes of the tensors tell,
// and what only the facts beside them do.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tost/io/torch_model.h"
#include "tost/models/language_config.h"
#include "tost/models/state_dict.h"
#include "tost/models/vision_config.h"

namespace tost {

// What a checkpoint tells beside its weights; nothing where it does not.
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
  // What this program wrote beside the weights: to_json(ModelInfo) or to_json(LanguageInfo). Where
  // it is there, it decides alone.
  std::optional<nlohmann::json> description;
};

// One set of weights of a file, described without reading a weight.
struct ForeignWeights {
  std::string file;              // its path, for messages
  std::string key;               // under which the file holds them, for messages
  NamedShapes shapes;            // by plain_name()
  std::string kind;              // "vision" or "language"
  nlohmann::ordered_json model;  // as recognise_models() tells
  std::function<ModelFacts()> facts;
  std::function<StateDict()> read;  // by plain_name()
};

// `name` without the "_orig_mod." of torch.compile and the "module." of data parallelism.
std::string plain_name(std::string name);

// Heads come from the weights where these show them, else from the presets of the name that the
// facts give, whatever its size; sides and normalisation from the facts, else 224 and on. Checked
// by validate(). Throws a data Error that says what the file does not tell.
VisionConfig foreign_vision_config(const ForeignWeights& weights, const ModelFacts& facts);

// Heads come from the weights, else from the facts.
LanguageConfig foreign_language_config(const ForeignWeights& weights, const ModelFacts& facts);

// Whether matrices lie the other way round, as in Hugging Face's GPT-2.
bool is_transposed_gpt2(const ForeignWeights& weights);

}  // namespace tost
