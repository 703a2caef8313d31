// Measures the effect of each layer on its objective: the variational bound, its gap to the exact
// rate, the layer-wise compression of the paper's figure, and whether the layer's step lowers the
// objective it was derived from (arXiv 2412.17810, Theorem 1).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/nn/block.h"
#include "tost/torch.h"

namespace tost {

// The eps^2 of the layer-wise compression figure and of the theory's scale.
inline constexpr double kEpsilonSquared = 0.01;

// The measure of that figure for each sample [B], in float64: compression_bound of unit_heads(w)
// with scale P / eps^2, at most compression_ceiling(P) = 1/2 P log(1 + 1 / eps^2).
torch::Tensor layer_compression(const torch::Tensor& w, const torch::Tensor& pi);
double compression_ceiling(int64_t head_width);

// The bound and the exact rate at one scale (ops/coding_rate.h) for each sample [B], in float64;
// their difference is the gap, >= 0.
struct BoundAndExact {
  torch::Tensor bound;  // compression_bound of w
  torch::Tensor exact;  // head_compression_rate of w
};

BoundAndExact bound_and_exact(const torch::Tensor& w, const torch::Tensor& pi, double scale);

// The rates of one layer. Tensors are float64 [B], an entry for each sample; they are undefined for
// a mixer without memberships, or if not requested. z are the normalised input tokens of the mixer,
// w their projection, pi their memberships; registers count as tokens, as in the layer. Sums are
// over all tokens of the passage, also in causal models, whose layers sum over the tokens so far.
struct LayerRates {
  // Computed from w and pi of the layer.
  BoundAndExact released;  // scale 1, the f of the released layer
  BoundAndExact theory;    // scale C / eps^2: the theory's d / eps^2

  // layer_compression() of w, and of the tokens after the mixer's residual, sent once more through
  // this layer's norm and projection (with bias and convolution), with the same pi. Always
  // computed.
  torch::Tensor compression_before, compression_after;

  // compression_bound at scale 1 of z U, without bias or convolution, with pi fixed: at the input
  // z, at z + gamma1 * mixer(z), the network's step with LayerScale, and at z + mixer(z).
  torch::Tensor objective, objective_stepped, objective_unscaled;

  bool defined() const { return compression_before.defined(); }
};

// The parts of LayerRates that are computed in addition to the compression.
struct WantedRates {
  bool released = true, theory = true, objective = true;
};

// Computes the rates of each block of `model` from traces that this model has just filled, without
// gradients.
std::vector<LayerRates> layer_rates(const torch::nn::Module& model,
                                    const std::vector<BlockTrace>& traces,
                                    const WantedRates& wanted = {});

// Returns an object for each layer with rates, all of which must have been requested, with means
// over the samples: "layer" from 1; "bound", "exact", "gap" (released scale), and these with
// "theory_" before them; the other members by their names.
nlohmann::json to_json(const std::vector<LayerRates>& layers);

// The mixers whose layers have rates, for messages.
std::vector<std::string> mixers_with_rates(bool causal);

// Whether any layer of the model has rates.
bool has_layer_rates(const torch::nn::Module& model);

}  // namespace tost
