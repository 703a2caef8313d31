#include "tost/kinds/vision/rates.h"

#include "tost/nn/block.h"

namespace tost {

std::vector<LayerRates> layer_rates(const ImageClassifier& model, const VisionTrace& trace,
                                    const WantedRates& wanted) {
  std::vector<LayerRates> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* block = module->as<Block>();
    if (block == nullptr) continue;
    const size_t i = layers.size();
    layers.push_back(
        layer_rates(static_cast<const TokenMixer&>(*block->attn), *block->norm1, block->gamma1,
                    {trace.mixer_inputs.at(i), trace.projections.at(i), trace.memberships.at(i),
                     trace.mixer_outputs.at(i), trace.mixed.at(i)},
                    wanted));
  }
  return layers;
}

std::vector<std::string> vision_mixers_with_rates() {
  std::vector<std::string> names;
  for (const auto& name : mixer_names()) {
    if (mixer_has_rates(make_mixer(name, {.dim = 1, .heads = 1}))) names.push_back(name);
  }
  return names;
}

}  // namespace tost
