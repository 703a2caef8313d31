// A model taken apart: weights by name and everything else as JSON; what the layouts of convert.h
// are written from.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tost/kinds/language/file.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"

namespace tost {

struct PortableModel {
  std::string kind;                 // "vision", "language" or "sequence"
  StateDict state;                  // by this program's names
  std::optional<ModelInfo> vision;  // one of the three
  std::optional<LanguageInfo> language;
  std::optional<SequenceInfo> sequence;

  nlohmann::json description() const;                   // to_json of it
  std::map<std::string, std::string> metadata() const;  // to_metadata of it
};

// `path` as for load_model_file.
PortableModel load_portable(const std::filesystem::path& path, Weights weights);

// These throw a usage Error where the model cannot have the size.
void change_image_size(PortableModel& model, int64_t side);
void change_block(PortableModel& model, int64_t block);

// Floating tensors as `dtype`, a name of convert.h.
void change_dtype(StateDict& state, const std::string& dtype);

// A softmax language model without LayerScale: its scales multiplied into c_proj. A usage Error
// for any other model. `with_biases`: zeros where it has none.
void fold_layer_scale(PortableModel& model, bool with_biases);

}  // namespace tost
