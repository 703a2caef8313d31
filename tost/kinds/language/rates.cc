#include "tost/kinds/language/rates.h"

#include "tost/nn/block.h"

namespace tost {

std::vector<LayerRates> layer_rates(const LanguageModel& model, const LanguageTrace& trace,
                                    const WantedRates& wanted) {
  std::vector<LayerRates> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* block = module->as<GptBlock>();
    if (block == nullptr) continue;
    const auto& seen = trace.blocks.at(layers.size());
    layers.push_back(layer_rates(
        static_cast<const CausalMixer&>(*block->attn), *block->ln_1, block->gamma1,
        {seen.mixer_input, seen.mixer.w, seen.mixer.pi, seen.mixer_output, seen.mixed}, wanted));
  }
  return layers;
}

std::vector<std::string> language_mixers_with_rates() {
  std::vector<std::string> names;
  for (const auto& name : causal_mixer_names()) {
    CausalMixerConfig one;
    one.dim = one.heads = one.block = 1;
    if (mixer_has_rates(make_causal_mixer(name, one))) names.push_back(name);
  }
  return names;
}

}  // namespace tost
