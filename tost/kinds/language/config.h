// Converts a language model's configuration to those of its modules.
#pragma once

#include "tost/engine/language_config.h"
#include "tost/nn/causal_mixer.h"

namespace tost {

// Throws a usage Error with the reason for an impossible configuration.
void validate(const LanguageConfig& config);

// The arguments of the constructors of a model's mixers.
CausalMixerConfig mixer_config(const LanguageConfig& config);

}  // namespace tost
