#include "tost/kinds/language/foreign.h"

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/foreign_config.h"
#include "tost/store/foreign_source.h"
#include "tost/store/metadata.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr char kHead[] = "lm_head.weight", kTokenTable[] = "transformer.wte.weight";

// Hugging Face keeps the matrices of GPT-2's Linear layers as [in, out].
void turn_gpt2(StateDict& state) {
  for (auto& [name, tensor] : state) {
    const bool linear = ends_with(name, ".c_attn.weight") || ends_with(name, ".c_proj.weight") ||
                        ends_with(name, ".c_fc.weight");
    if (linear && tensor.dim() == 2) tensor = tensor.t();
  }
}

// Takes out what the model here does not keep, and adds what models without LayerScale lack.
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
    // The causal mask and its filler that older versions of nanoGPT and GPT-2 kept as buffers.
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

}  // namespace

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

}  // namespace tost
