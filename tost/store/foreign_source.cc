#include "tost/store/foreign_source.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/engine/metadata.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/torch_value.h"
#include "tost/ops/safetensors.h"
#include "tost/ops/torch_tensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// The first few names of a file, for messages.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (parts.size() == kMost) return join(parts, ", ") + ", …";
    parts.push_back(shown(name, 60));
  }
  return parts.empty() ? "nothing by name" : join(parts, ", ");
}

// The keys of a dict whose values are not None.
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

// Finds the dict of tensors in a torch file, and the key of this dict.
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

// Removes prefixes from the names of weights, and adds a missing "transformer." to those of GPT-2.
template <class Value>
std::map<std::string, Value> by_plain_names(const std::string& file,
                                            const std::map<std::string, Value>& named) {
  const bool headless = std::ranges::any_of(
      named, [](const auto& one) { return plain_name(one.first) == "h.0.attn.c_attn.weight"; });
  std::map<std::string, Value> result;
  for (const auto& [name, value] : named) {
    std::string plain = plain_name(name);
    if (headless && !starts_with(plain, "lm_head.")) plain = "transformer." + plain;
    if (!result.emplace(plain, value).second) {
      fail_data("'", file, "' holds tensor ", shown(plain), " twice, with and without the ",
                "prefix _orig_mod. or module.");
    }
  }
  return result;
}

// Finds the model that uses all weights of a file.
void recognise(ForeignWeights& weights) {
  for (const auto& model : recognise_models(weights.shapes)) {
    const std::string prefix = model.at("prefix");
    if (prefix != "" && prefix != "transformer.") continue;
    weights.model = model;
    weights.kind = model.contains("vocab") ? "language" : "vision";
    if (prefix.empty() == (weights.kind == "vision")) return;
  }
  std::vector<std::string> names;
  for (const auto& [name, shape] : weights.shapes) names.push_back(name);
  fail_data("'", weights.file, "' holds no model known here: in ", weights.key,
            " neither 'blocks.0.attn.qkv.weight' nor 'transformer.h.0.attn.c_attn.weight' was "
            "found but ",
            some_of(names), ".");
}

StateDict read_torch_state(const std::shared_ptr<const TorchFile>& file, PickleId dict,
                           const std::string& key) {
  const StateDict state = TorchTensorReader(file).state_dict(dict, key);
  for (const auto& [name, tensor] : state) {
    // Refuses a tensor whose shape needs more bytes than the file has.
    if (size_t(tensor.numel()) * tensor.element_size() > tensor.storage().nbytes()) {
      fail_data("'", file->name(), "' has ", tensor.numel(), " elements in tensor ",
                shown(plain_name(name)), " but only ", tensor.storage().nbytes(),
                " bytes for them.");
    }
  }
  return by_plain_names(file->name(), state);
}

ForeignWeights open_torch(const fs::path& path, Weights which) {
  const auto file = TorchFile::open(path);
  ForeignWeights weights;
  weights.file = file->name();
  PickleId dict = PickleTree::kNoneId;
  std::tie(dict, weights.key) = find_weights(*file, which);
  const PickleTree& tree = file->tree();
  const auto fields = torch_fields(tree, dict);
  NamedShapes shapes;
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    const TorchTensor* tensor = file->tensor(fields[i + 1]);
    if (tensor == nullptr || !tree.is(fields[i], PickleKind::kString)) continue;
    shapes.emplace(tree[fields[i]].text, tensor->shape);
  }
  weights.shapes = by_plain_names(weights.file, shapes);
  recognise(weights);
  weights.facts = [file] { return torch_facts(*file); };
  weights.read = [file, dict, key = weights.key] { return read_torch_state(file, dict, key); };
  return weights;
}

ForeignWeights open_safetensors(const fs::path& path, Weights which) {
  ForeignWeights weights;
  weights.file = path.string();
  weights.key = "it";
  if (which == Weights::kEma) {
    fail_data("'", weights.file, "' holds one set of weights; use the raw weights.");
  }
  NamedShapes shapes;
  for (const auto& [name, entry] : read_safetensors_header(path).entries) {
    shapes.emplace(name, entry.shape);
  }
  weights.shapes = by_plain_names(weights.file, shapes);
  recognise(weights);
  weights.facts = [path] { return config_file_facts(path.parent_path() / "config.json"); };
  weights.read = [path] { return by_plain_names(path.string(), load_safetensors(path).tensors); };
  return weights;
}

}  // namespace

bool is_torch_checkpoint(const fs::path& file) {
  const std::string extension = to_lower(file.extension().string());
  for (const char* ending : {".pth", ".pt", ".bin"}) {
    if (extension == ending) return true;
  }
  if (extension == ".safetensors" || is_safetensors_index(file) || !is_plain_file(file))
    return false;
  return looks_like_torch_file(read_beginning(file, 512));
}

ForeignWeights open_foreign_weights(const fs::path& file, Weights weights) {
  return is_torch_checkpoint(file) ? open_torch(file, weights) : open_safetensors(file, weights);
}

bool is_foreign_checkpoint(const fs::path& file) {
  return is_torch_checkpoint(file) || !describes_itself(read_safetensors_header(file).metadata);
}

std::string foreign_kind(const fs::path& file, Weights weights) {
  return open_foreign_weights(file, weights).kind;
}

void expect_kind(const ForeignWeights& weights, const char* kind, const char* wanted) {
  if (weights.kind == kind) return;
  fail_data("'", weights.file, "' holds a ", weights.kind, " model, not ", wanted, ".");
}

}  // namespace tost
