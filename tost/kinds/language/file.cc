#include "tost/kinds/language/file.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/text_layout.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"
#include "tost/store/foreign_source.h"

namespace tost {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// The activation for a name that Hugging Face uses.
std::string activation(const std::string& name) {
  if (name.empty() || name == "gelu") return "gelu";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return "gelu-tanh";
  fail_data("Its activation is ", shown(name), "; gelu and gelu_new are known here.");
}

// Whether matrices are stored transposed, as in Hugging Face's GPT-2.
bool is_transposed_gpt2(const ForeignModel& weights) {
  return weights.model.at("family") == "GPT-2 (Hugging Face layout)";
}

// The architecture of a foreign model (engine/foreign_model.h), not checked by validate(). The
// number of heads comes from the weights, else from the facts. Throws a data Error that names
// missing facts.
LanguageConfig foreign_language_config(const ForeignModel& weights, const ModelFacts& facts) {
  LanguageConfig c;
  c.mixer = weights.model.at("mixer").get<std::string>();
  c.dim = weights.side("transformer.wte.weight", 1);
  c.vocab = weights.side("transformer.wte.weight", 0);
  c.block = weights.side("transformer.wpe.weight", 0);
  c.depth = weights.size("depth");
  c.heads = weights.size("heads");
  if (c.heads == 0) c.heads = facts.heads.value_or(0);
  if (c.heads == 0) {
    fail_data("The weights of mixer ", c.mixer,
              " do not show how many attention heads there are, and ", facts.no_heads, ".");
  }
  const size_t hidden_side = is_transposed_gpt2(weights) ? 1 : 0;
  c.mlp_ratio =
      foreign_mlp_ratio(weights.side("transformer.h.0.mlp.c_fc.weight", hidden_side), c.dim);
  c.bias = weights.has("transformer.ln_f.bias");
  c.activation = activation(facts.activation);
  // Takes the length of denom_bias from the tensor, because cropping the block does not shorten the
  // tensor.
  const std::string lengths = "transformer.h.0.attn.denom_bias";
  if (weights.has(lengths) && weights.side(lengths, 1) != c.block) {
    c.options.bias_positions = weights.side(lengths, 1);
  }
  return c;
}

constexpr char kHead[] = "lm_head.weight", kTokenTable[] = "transformer.wte.weight";

// Transposes the matrices of GPT-2's linear layers, which Hugging Face stores as [in, out].
void turn_gpt2(StateDict& state) {
  for (auto& [name, tensor] : state) {
    const bool linear = ends_with(name, ".c_attn.weight") || ends_with(name, ".c_proj.weight") ||
                        ends_with(name, ".c_fc.weight");
    if (linear && tensor.dim() == 2) tensor = tensor.t();
  }
}

// Removes tensors that the model does not have, and adds LayerScale if it is missing.
void adapt_language(const LanguageConfig& config, StateDict& state) {
  const auto head = state.find(kHead);
  if (head != state.end()) {
    const torch::Tensor& tokens = state.at(kTokenTable);
    if (head->second.dtype() != tokens.dtype() || !torch::equal(head->second, tokens)) {
      fail_data("Tensor '", kHead, "' is not the same as '", kTokenTable,
                "', to which the models of this program tie it.");
    }
    state.erase(head);
  }
  bool scaled = false;
  for (auto item = state.begin(); item != state.end();) {
    scaled = scaled || ends_with(item->first, ".gamma1") || ends_with(item->first, ".gamma2");
    // The causal mask and its fill value, which are buffers of older versions of nanoGPT and GPT-2.
    const bool mask = (ends_with(item->first, ".attn.bias") && item->second.dim() == 4) ||
                      (ends_with(item->first, ".attn.masked_bias") && item->second.dim() == 0);
    item = mask ? state.erase(item) : std::next(item);
  }
  if (scaled || config.mixer != "softmax") return;
  for (int64_t i = 0; i < config.depth; ++i) {
    for (const char* gamma : {"gamma1", "gamma2"}) {
      state.emplace(cat("transformer.h.", i, ".", gamma), torch::ones({config.dim}));
    }
  }
}

LanguageInfo language_info(const ForeignWeights& weights) {
  const ModelFacts facts = weights.facts();
  if (facts.description) return language_info_from_json(*facts.description, "its description");
  const LanguageConfig config = foreign_language_config(weights, facts);
  validate(config);
  return {.config = config, .tokenizer = nullptr};
}

// Reads weights of other programs (foreign_source.h). Throws data Errors naming the file, and a
// tensor that does not fit. The tokenizer is null if the file has none. Models without LayerScale,
// such as GPT-2, get LayerScale 1.
LoadedLanguage load_foreign_language(const fs::path& file, Weights which) {
  const ForeignWeights weights = open_foreign_weights(file, which);
  expect_kind(weights, "language", "a language model");
  StateDict state = weights.read();
  return read_from(cat("'", file.string(), "'"), [&] {
    LoadedLanguage loaded;
    loaded.file = file;
    loaded.info = language_info(weights);
    if (is_transposed_gpt2(weights)) turn_gpt2(state);
    adapt_language(loaded.info.config, state);
    loaded.model = make_language_model(loaded.info.config, WeightInit::kNone);
    load_state_dict(*loaded.model, state);
    finish_loading(*loaded.model, "it");
    return loaded;
  });
}

}  // namespace

LoadedLanguage load_language_file(const fs::path& path, Weights weights) {
  const fs::path file = find_intact_model_file(path, weights);
  if (is_foreign_checkpoint(file)) return load_foreign_language(file, weights);
  return load_described(file, language_info_of, make_language_model);
}

void save_language_file(const fs::path& file, const LanguageModel& model,
                        const LanguageInfo& info) {
  save_safetensors(file, state_dict(model), to_metadata(info));
}

}  // namespace tost
