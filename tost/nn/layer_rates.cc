#include "tost/nn/layer_rates.h"

#include <algorithm>
#include <cmath>

#include "tost/nn/causal_mixer.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr double kReleasedScale = 1;

LayerRates rates_of(const Block& block, const BlockTrace& seen, const WantedRates& wanted) {
  const auto u = block.attn->subspaces();
  if (!u.defined() || !seen.mixer.pi.defined()) return {};
  LayerRates rates;
  if (wanted.released)
    rates.released = bound_and_exact(seen.mixer.w, seen.mixer.pi, kReleasedScale);
  if (wanted.theory) {
    rates.theory = bound_and_exact(seen.mixer.w, seen.mixer.pi,
                                   double(seen.mixer.w.size(2)) / kEpsilonSquared);
  }
  rates.compression_before = layer_compression(seen.mixer.w, seen.mixer.pi);
  rates.compression_after =
      layer_compression(block.attn->project(block.norm1->forward(seen.mixed)), seen.mixer.pi);
  if (!wanted.objective) return rates;
  const auto objective = [&](const Tensor& z) {
    return compression_bound(project_heads(z, u), seen.mixer.pi, kReleasedScale);
  };
  const auto z = seen.mixer_input.to(torch::kDouble), step = seen.mixer_output.to(torch::kDouble);
  rates.objective = objective(z);
  rates.objective_stepped = objective(z + block.gamma1.to(torch::kDouble) * step);
  rates.objective_unscaled = objective(z + step);
  return rates;
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

std::vector<LayerRates> layer_rates(const torch::nn::Module& model,
                                    const std::vector<BlockTrace>& traces,
                                    const WantedRates& wanted) {
  const torch::NoGradGuard no_grad;
  std::vector<LayerRates> layers;
  for (const auto& block : blocks_of(model)) {
    layers.push_back(rates_of(*block, traces.at(layers.size()), wanted));
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

bool has_layer_rates(const torch::nn::Module& model) {
  const auto blocks = blocks_of(model);
  return std::any_of(blocks.begin(), blocks.end(),
                     [](const auto& block) { return block->attn->subspaces().defined(); });
}

std::vector<std::string> mixers_with_rates(bool causal) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (const auto& name : causal ? causal_mixer_names() : mixer_names()) {
    CausalMixerConfig one;
    one.dim = one.heads = one.block = 1;
    const auto mixer = causal ? make_causal_mixer(name, one) : make_mixer(name, {.dim = 1});
    for (auto& parameter : mixer->parameters()) parameter.zero_();
    if (mixer->subspaces().defined()) names.push_back(name);
  }
  return names;
}

}  // namespace tost
