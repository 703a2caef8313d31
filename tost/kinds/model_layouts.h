// Writing the layouts of convert.h; each call leaves its files whole and durable in place.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tost/kinds/language/file.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"

namespace tost {

// A model taken apart: weights by name and everything else as JSON; what the layouts of convert.h
// are written from.

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

// official and nanogpt. `prefix` before every name.
void write_torch_layout(const PortableModel& model, const std::filesystem::path& file,
                        const std::string& prefix);

// The other files of the folders hub, timm and gpt2, next to model.safetensors, by name.
std::map<std::string, std::string> hub_files(const PortableModel& model, const std::string& dtype);
std::map<std::string, std::string> timm_files(const PortableModel& model);
std::map<std::string, std::string> gpt2_files(const PortableModel& model, const std::string& dtype);

// By the names and the orientation that transformers' GPT2LMHeadModel has.
StateDict gpt2_state(const PortableModel& model);

}  // namespace tost
