#include "tost/eval/layer_rates.h"

#include <cmath>

#include "tost/models/block.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr double kReleasedScale = 1;

// What one block computed; empty where its mixer has no memberships.
struct Seen {
  Tensor z, w, pi, mixer_output, mixed;
};

template <class Mixer>
LayerRates rates_of(const Mixer& mixer, const LayerNorm& norm, const Tensor& gamma,
                    const Seen& seen, const WantedRates& wanted) {
  const torch::NoGradGuard no_grad;
  const auto u = mixer.subspaces();
  if (!u.defined() || !seen.pi.defined()) return {};
  LayerRates rates;
  if (wanted.released) rates.released = bound_and_exact(seen.w, seen.pi, kReleasedScale);
  if (wanted.theory) {
    rates.theory = bound_and_exact(seen.w, seen.pi, double(seen.w.size(2)) / kEpsilonSquared);
  }
  rates.compression_before = layer_compression(seen.w, seen.pi);
  rates.compression_after = layer_compression(mixer.project(norm.forward(seen.mixed)), seen.pi);
  if (!wanted.objective) return rates;
  const auto objective = [&](const Tensor& z) {
    return compression_bound(project_heads(z, u), seen.pi, kReleasedScale);
  };
  const auto z = seen.z.to(torch::kDouble), step = seen.mixer_output.to(torch::kDouble);
  rates.objective = objective(z);
  rates.objective_stepped = objective(z + gamma.to(torch::kDouble) * step);
  rates.objective_unscaled = objective(z + step);
  return rates;
}

// Whether a mixer of this name has rates, from its smallest example.
template <class Mixer>
bool mixer_has_rates(const std::shared_ptr<Mixer>& mixer) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : mixer->parameters()) parameter.zero_();
  return mixer->subspaces().defined();
}

}  // namespace

Tensor layer_compression(const Tensor& w, const Tensor& pi) {
  const int64_t heads = pi.size(1);
  const double width = double(w.size(2) / heads);
  return compression_bound(unit_heads(w, heads), pi, width / kEpsilonSquared);
}

double compression_ceiling(int64_t head_width) {
  return 0.5 * double(head_width) * std::log1p(1 / kEpsilonSquared);
}

BoundAndExact bound_and_exact(const Tensor& w, const Tensor& pi, double scale) {
  return {compression_bound(w, pi, scale), head_compression_rate(w, pi, scale)};
}

std::vector<LayerRates> layer_rates(const ImageClassifier& model, const VisionTrace& trace,
                                    const WantedRates& wanted) {
  std::vector<LayerRates> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* block = module->as<Block>();
    if (block == nullptr) continue;
    const size_t i = layers.size();
    layers.push_back(
        rates_of(*block->attn, *block->norm1, block->gamma1,
                 {trace.mixer_inputs.at(i), trace.projections.at(i), trace.memberships.at(i),
                  trace.mixer_outputs.at(i), trace.mixed.at(i)},
                 wanted));
  }
  return layers;
}

std::vector<LayerRates> layer_rates(const LanguageModel& model, const LanguageTrace& trace,
                                    const WantedRates& wanted) {
  std::vector<LayerRates> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* block = module->as<GptBlock>();
    if (block == nullptr) continue;
    const auto& seen = trace.blocks.at(layers.size());
    layers.push_back(rates_of(
        *block->attn, *block->ln_1, block->gamma1,
        {seen.mixer_input, seen.mixer.w, seen.mixer.pi, seen.mixer_output, seen.mixed}, wanted));
  }
  return layers;
}

nlohmann::json to_json(const std::vector<LayerRates>& layers) {
  auto list = nlohmann::json::array();
  const auto mean = [](const Tensor& values) { return values.mean().item<double>(); };
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& r = layers[i];
    if (!r.defined()) continue;
    list.push_back({{"layer", i + 1},
                    {"bound", mean(r.released.bound)},
                    {"exact", mean(r.released.exact)},
                    {"gap", mean(r.released.bound - r.released.exact)},
                    {"theory_bound", mean(r.theory.bound)},
                    {"theory_exact", mean(r.theory.exact)},
                    {"theory_gap", mean(r.theory.bound - r.theory.exact)},
                    {"compression_before", mean(r.compression_before)},
                    {"compression_after", mean(r.compression_after)},
                    {"objective", mean(r.objective)},
                    {"objective_stepped", mean(r.objective_stepped)},
                    {"objective_unscaled", mean(r.objective_unscaled)}});
  }
  return list;
}

std::vector<std::string> vision_mixers_with_rates() {
  std::vector<std::string> names;
  for (const auto& name : mixer_names()) {
    if (mixer_has_rates(make_mixer(name, {.dim = 1, .heads = 1}))) names.push_back(name);
  }
  return names;
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

bool has_layer_rates(const torch::nn::Module& model) {
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* mixer = module->as<TokenMixer>();
    const auto* causal = module->as<CausalMixer>();
    if (mixer != nullptr && mixer->subspaces().defined()) return true;
    if (causal != nullptr && causal->subspaces().defined()) return true;
  }
  return false;
}

}  // namespace tost
