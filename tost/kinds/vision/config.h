// Image classifiers of every mixer: the checks of their configurations, what they cost, their
// presets, and the architectures of other programs. Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/engine/foreign_model.h"
#include "tost/engine/vision_config.h"

namespace tost {

// Throws a usage Error with the reason when no model can be built from `config`.
void validate(const VisionConfig& config);

// The multiply-adds of matrix products and convolutions in a forward pass of one image, counted as
// in the official table: with class attention's queries for every token, which this project does
// not compute (1.4 % less work at depth 12). Divide by 1e9 for GMAC.
int64_t vision_multiply_adds(const VisionConfig& config, int64_t height, int64_t width);

// The names {tost,xcit,vit}_cab_{tiny,small}_{12,24}_p{16,8}, {..}_cab_{medium,large}_24_p{16,8},
// tost_cab_medium_12_p16, {..}_{nano,micro}_p{4,2}, {..}_patch_{nano,micro}_p{4,8} and linear;
// tost_whitebox_* have the small sizes alone.
std::vector<std::string> vision_preset_names();

// The preset with this name. Throws a usage Error, with the nearest name, for an unknown name.
VisionConfig vision_preset(const std::string& name);

// Takes heads from the weights, else from the preset that the facts name. Takes side and
// normalisation from the facts; by default side 224, normalised. The caller calls validate().
// Throws a data Error that names missing facts.
VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts);

}  // namespace tost
