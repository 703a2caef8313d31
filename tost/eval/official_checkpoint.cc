#include "tost/eval/official_checkpoint.h"

#include <array>
#include <fstream>
#include <tuple>
#include <utility>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/eval/metadata.h"
#include "tost/eval/official_config.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_tensors.h"
#include "tost/io/torch_value.h"
#include "tost/models/state_dict.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr char kVision[] = "vision", kLanguage[] = "language";
constexpr char kHead[] = "lm_head.weight", kTokens[] = "transformer.wte.weight";

// The first few of a file's own names, for messages.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (parts.size() == kMost) return join(parts, ", ") + ", …";
    parts.push_back(shown(name, 60));
  }
  return parts.empty() ? "nothing by name" : join(parts, ", ");
}

// Of the items that are not None.
std::vector<std::string> keys_of(const PickleTree& tree, PickleId dict) {
  std::vector<std::string> keys;
  const auto fields = torch_fields(tree, dict);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (!tree.is(fields[i], PickleKind::kString) || fields[i + 1] == PickleTree::kNoneId) continue;
    keys.emplace_back(tree[fields[i]].text);
  }
  return keys;
}

bool holds_tensors(const TorchFile& file, PickleId dict) {
  for (const PickleId id : torch_fields(file.tree(), dict)) {
    if (file.tensor(id) != nullptr) return true;
  }
  return false;
}

// The dict of tensors, and the key it lies under.
std::pair<PickleId, std::string> find_weights(const TorchFile& file, Weights weights) {
  const bool ema = weights == Weights::kEma;
  const std::array<const char*, 2> keys{ema ? "model_ema" : "model",
                                        ema ? "state_dict_ema" : "state_dict"};
  for (const char* key : keys) {
    const auto found = torch_field(file.tree(), file.root(), key);
    if (found && *found != PickleTree::kNoneId) return {*found, cat("'", key, "'")};
  }
  if (!ema && holds_tensors(file, file.root())) return {file.root(), "its dict"};
  fail_data("'", file.name(), "' holds no ", ema ? "averaged weights" : "weights",
            ": there is no '", keys[0], "' in it but ", some_of(keys_of(file.tree(), file.root())),
            ema ? "; use the raw weights." : ".");
}

NamedShapes shapes_of(const TorchFile& file, PickleId dict) {
  const PickleTree& tree = file.tree();
  NamedShapes shapes;
  const auto fields = torch_fields(tree, dict);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    const TorchTensor* tensor = file.tensor(fields[i + 1]);
    if (tensor == nullptr || !tree.is(fields[i], PickleKind::kString)) continue;
    const std::string name = plain_name(std::string(tree[fields[i]].text));
    if (!shapes.emplace(name, tensor->shape).second) {
      fail_data("'", file.name(), "' holds tensor ", shown(name), " twice, with and without the ",
                "prefix _orig_mod. or module.");
    }
  }
  return shapes;
}

// Which of the models among the names is the whole of the weights.
void recognise(OfficialCheckpoint& checkpoint) {
  for (const auto& model : recognise_models(checkpoint.shapes)) {
    const std::string prefix = model.at("prefix");
    if (prefix != "" && prefix != "transformer.") continue;
    checkpoint.model = model;
    checkpoint.kind = model.contains("vocab") ? kLanguage : kVision;
    if (prefix.empty() == (checkpoint.kind == kVision)) return;
  }
  std::vector<std::string> names;
  for (const auto& [name, shape] : checkpoint.shapes) names.push_back(name);
  fail_data("'", checkpoint.file->name(), "' holds no model known here: in ", checkpoint.key,
            " neither 'blocks.0.attn.qkv.weight' nor 'transformer.h.0.attn.c_attn.weight' was "
            "found but ",
            some_of(names), ".");
}

OfficialCheckpoint open_official(const fs::path& path, Weights weights) {
  OfficialCheckpoint checkpoint;
  checkpoint.file = TorchFile::open(path);
  std::tie(checkpoint.weights, checkpoint.key) = find_weights(*checkpoint.file, weights);
  checkpoint.shapes = shapes_of(*checkpoint.file, checkpoint.weights);
  recognise(checkpoint);
  return checkpoint;
}

StateDict read_state(const OfficialCheckpoint& checkpoint) {
  TorchTensorReader reader(checkpoint.file);
  StateDict state;
  for (auto& [name, tensor] : reader.state_dict(checkpoint.weights, checkpoint.key)) {
    // No shape is believed that the file does not hold the bytes of.
    if (size_t(tensor.numel()) * tensor.element_size() > tensor.storage().nbytes()) {
      fail_data("'", checkpoint.file->name(), "' has ", tensor.numel(), " elements in tensor ",
                shown(name), " but only ", tensor.storage().nbytes(), " bytes for them.");
    }
    state.emplace(plain_name(name), tensor);
  }
  return state;
}

// Takes out what the model here does not keep, and adds what nanoGPT's lacks.
void adapt_language(const LanguageConfig& config, StateDict& state) {
  const auto head = state.find(kHead);
  if (head != state.end()) {
    const torch::Tensor& tokens = state.at(kTokens);
    if (head->second.dtype() != tokens.dtype() || !torch::equal(head->second, tokens)) {
      fail_data("Tensor '", kHead, "' is not the same as '", kTokens,
                "', to which the models of this program tie it.");
    }
    state.erase(head);
  }
  bool scaled = false;
  for (auto item = state.begin(); item != state.end();) {
    scaled = scaled || ends_with(item->first, ".gamma1") || ends_with(item->first, ".gamma2");
    // The causal mask that older versions of nanoGPT kept as a buffer.
    const bool mask = ends_with(item->first, ".attn.bias") && item->second.dim() == 4;
    item = mask ? state.erase(item) : std::next(item);
  }
  if (scaled || config.mixer != "softmax") return;
  for (int64_t i = 0; i < config.depth; ++i) {
    for (const char* gamma : {"gamma1", "gamma2"}) {
      state.emplace(cat("transformer.h.", i, ".", gamma), torch::ones({config.dim}));
    }
  }
}

Preprocess official_preprocess(const VisionConfig& config) {
  const ChannelStats stats = imagenet_stats(config.in_channels);
  return {.size = config.image_size,
          .channels = config.in_channels,
          .resize = "crop",
          .crop_ratio = 1,
          .interpolation = "bicubic",
          .mean = stats.mean,
          .std = stats.std};
}

void expect_kind(const OfficialCheckpoint& checkpoint, const char* kind, const char* wanted) {
  if (checkpoint.kind == kind) return;
  fail_data("'", checkpoint.file->name(), "' holds a ", checkpoint.kind, " model, not ", wanted,
            ".");
}

}  // namespace

bool is_torch_checkpoint(const fs::path& file) {
  const std::string extension = to_lower(file.extension().string());
  for (const char* ending : {".pth", ".pt", ".bin"}) {
    if (extension == ending) return true;
  }
  if (extension == ".safetensors" || !fs::is_regular_file(file)) return false;
  std::string start(512, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(start.data(), std::streamsize(start.size()));
  start.resize(size_t(in.gcount()));
  return looks_like_torch_file(start);
}

std::string official_kind(const fs::path& file, Weights weights) {
  return open_official(file, weights).kind;
}

LoadedModel load_official_vision(const fs::path& file, Weights weights) {
  const OfficialCheckpoint checkpoint = open_official(file, weights);
  expect_kind(checkpoint, kVision, "an image classifier");
  const StateDict state = read_state(checkpoint);
  return read_from(cat("'", file.string(), "'"), [&] {
    LoadedModel loaded;
    loaded.file = file;
    loaded.info.config = official_vision_config(checkpoint);
    loaded.info.preprocess = official_preprocess(loaded.info.config);
    for (int64_t i = 0; i < loaded.info.config.classes; ++i) loaded.info.classes.push_back(cat(i));
    loaded.model = make_image_classifier(loaded.info.config, WeightInit::kNone);
    load_state_dict(*loaded.model, state);
    loaded.model->eval();
    return loaded;
  });
}

LoadedLanguage load_official_language(const fs::path& file, Weights weights) {
  const OfficialCheckpoint checkpoint = open_official(file, weights);
  expect_kind(checkpoint, kLanguage, "a language model");
  StateDict state = read_state(checkpoint);
  return read_from(cat("'", file.string(), "'"), [&] {
    LoadedLanguage loaded;
    loaded.file = file;
    loaded.info.config = official_language_config(checkpoint);
    adapt_language(loaded.info.config, state);
    loaded.model = make_language_model(loaded.info.config, WeightInit::kNone);
    load_state_dict(*loaded.model, state);
    loaded.model->eval();
    return loaded;
  });
}

}  // namespace tost
