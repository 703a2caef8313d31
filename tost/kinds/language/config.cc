#include "tost/kinds/language/config.h"

namespace tost {

CausalMixerConfig mixer_config(const LanguageConfig& c) {
  return {.dim = c.dim,
          .heads = c.heads,
          .block = c.block,
          .bias = c.bias,
          .dropout = c.dropout,
          .options = c.options};
}

void validate(const LanguageConfig& c) {
  check_language_config(c);
  const CausalMixerConfig mixer = mixer_config(c);
  if (c.hybrid_every == 0) return check_causal_mixer(c.mixer, mixer);
  check_hybrid(c.mixer, c.hybrid_mixer, mixer);
}

}  // namespace tost
