#include "tost/kinds/language/foreign_config.h"

#include "tost/base/error.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

// By the names that Hugging Face gives them.
std::string activation(const std::string& name) {
  if (name.empty() || name == "gelu") return "gelu";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return "gelu-tanh";
  fail_data("Its activation is ", shown(name), "; gelu and gelu_new are known here.");
}

}  // namespace

bool is_transposed_gpt2(const ForeignModel& weights) {
  return weights.model.at("family") == "GPT-2 (Hugging Face layout)";
}

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
  // Cropping to a shorter block leaves it at its full length.
  const std::string lengths = "transformer.h.0.attn.denom_bias";
  if (weights.has(lengths) && weights.side(lengths, 1) != c.block) {
    c.options.bias_positions = weights.side(lengths, 1);
  }
  return c;
}

}  // namespace tost
