// What each layer of a language model does to its objective (layer_rates.h).
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/language/model.h"
#include "tost/nn/layer_rates.h"

namespace tost {

// One entry a block, from a trace that the same model has just filled. Without gradients.
std::vector<LayerRates> layer_rates(const LanguageModel& model, const LanguageTrace& trace,
                                    const WantedRates& wanted = {});

// The mixers whose layers have rates, for messages.
std::vector<std::string> language_mixers_with_rates();

}  // namespace tost
