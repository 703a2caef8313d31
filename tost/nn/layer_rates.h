// Measures the effect of each layer on its objective (arXiv 2412.17810, Theorem 1): the variational
// bound, the gap to the exact rate, the compression by layer, and the change of the objective by
// the layer's step.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/engine/picture_maps.h"
#include "tost/nn/block.h"
#include "tost/torch.h"

namespace tost {

// The measure of the paper's compression figure for each sample [B], in float64: compression_bound
// of unit_heads(w) with scale P / eps^2. The measure is at most compression_ceiling(P) = 1/2 P
// log(1 + 1 / eps^2).
torch::Tensor layer_compression(const torch::Tensor& w, const torch::Tensor& pi);
double compression_ceiling(int64_t head_width);

// The bound and the exact rate at one scale (ops/coding_rate.h) for each sample [B], in float64;
// their difference is the gap, >= 0.
struct BoundAndExact {
  torch::Tensor bound;  // compression_bound of w
  torch::Tensor exact;  // head_compression_rate of w
};

BoundAndExact bound_and_exact(const torch::Tensor& w, const torch::Tensor& pi, double scale);

// The rates of one layer. Tensors are float64 [B]; they are undefined if not requested, and for a
// mixer without memberships. z are the normalised input tokens, w their projection, pi their
// memberships; registers count as tokens. Sums go over all tokens of the passage, also in causal
// models.
struct LayerRates {
  // Rates that are computed from w and pi of the layer.
  BoundAndExact released;  // scale 1, the f of the released layer
  BoundAndExact theory;    // scale C / eps^2: the theory's d / eps^2

  // layer_compression() of w, and of the tokens after the mixer's residual, which are normalised
  // and projected again, with the same pi. Always computed.
  torch::Tensor compression_before, compression_after;

  // compression_bound at scale 1 of z U with pi fixed, for the input z, for z + gamma1 * mixer(z)
  // (the step with LayerScale), and for z + mixer(z).
  torch::Tensor objective, objective_stepped, objective_unscaled;

  bool defined() const { return compression_before.defined(); }
};

// The parts of LayerRates that are computed in addition to the compression.
struct WantedRates {
  bool released = true, theory = true, objective = true;
};

// Computes the rates of each block of `model` from its last traces, without gradients.
std::vector<LayerRates> layer_rates(const torch::nn::Module& model,
                                    const std::vector<BlockTrace>& traces,
                                    const WantedRates& wanted = {});

// Returns an object for each layer with rates, of means over samples; all rates must have been
// requested. Members are "layer" from 1, "bound", "exact" and "gap" at scale 1 and with the prefix
// "theory_", and the other members by name.
nlohmann::json to_json(const std::vector<LayerRates>& layers);

// Names the mixers whose layers have rates, for messages.
std::vector<std::string> mixers_with_rates(bool causal);

// Whether any layer of the model has rates.
bool has_layer_rates(const torch::nn::Module& model);

}  // namespace tost
