// Sizes of the models that settings of training runs ask for, and settings of a given size.
#pragma once

#include <nlohmann/json.hpp>

namespace tost {

// Parameters of the model of a causal run (text or recall) or of a classifier of sequences. Where
// data decides the vocabulary, that of the preset stands for it.
int64_t parameters_of_settings(const nlohmann::json& settings, bool causal);

// What a causal model keeps of a sample as long as its block.
int64_t state_bytes_of_settings(const nlohmann::json& settings);

// `settings` with the MLP's width that brings parameters_of_settings() next to `wanted`. Throws a
// usage Error where no width does.
nlohmann::json with_parameters(nlohmann::json settings, bool causal, int64_t wanted);

}  // namespace tost
