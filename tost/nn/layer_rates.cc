#include "tost/nn/layer_rates.h"

#include <cmath>

#include "tost/nn/causal_mixer.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr double kReleasedScale = 1;

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

template <class Mixer>
LayerRates layer_rates(const Mixer& mixer, const LayerNorm& norm, const Tensor& gamma,
                       const BlockValues& seen, const WantedRates& wanted) {
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

template LayerRates layer_rates(const TokenMixer&, const LayerNorm&, const Tensor&,
                                const BlockValues&, const WantedRates&);
template LayerRates layer_rates(const CausalMixer&, const LayerNorm&, const Tensor&,
                                const BlockValues&, const WantedRates&);

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
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* mixer = module->as<TokenMixer>();
    const auto* causal = module->as<CausalMixer>();
    if (mixer != nullptr && mixer->subspaces().defined()) return true;
    if (causal != nullptr && causal->subspaces().defined()) return true;
  }
  return false;
}

}  // namespace tost
