// What a language model's configuration means to its modules.
#pragma once

#include "tost/engine/language_config.h"
#include "tost/nn/causal_mixer.h"

namespace tost {

// Throws a usage Error with the reason for an impossible configuration.
void validate(const LanguageConfig& config);

// The arguments of its mixers' constructors.
CausalMixerConfig mixer_config(const LanguageConfig& config);

}  // namespace tost
