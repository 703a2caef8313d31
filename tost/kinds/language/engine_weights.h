// The weights of a language model as a decoding step reads them: each once, in the precision asked
// for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/base/parallel.h"
#include "tost/kernels/products/few_rows.h"
#include "tost/kernels/row_ops.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/precision.h"
#include "tost/ops/quantized_weight.h"

namespace tost {

// Group means between the products of a language engine: convolution, membership, running means and
// gate, for a few tokens as for many.

// Of a CausalMeansMixer, all but its linear maps.
struct MeansWeights {
  MeansWeights() = default;
  explicit MeansWeights(const CausalMeansMixer& mixer);

  int64_t taps() const { return filter.defined() ? filter.size(0) : 1; }
  int64_t bytes() const;

  int64_t heads = 0, dim = 0;
  bool gate = false;
  torch::Tensor router_bias, temp;  // [H] float32
  torch::Tensor filter;             // [taps, C] float32; undefined without a convolution
  torch::Tensor scale;              // [C] float32
  torch::Tensor decay;              // [H] float64
};

// Tokens of one call and the mixer's state, both updated in place.
struct MeansMix {
  int64_t batch = 0, tokens = 0;
  const float* parts = nullptr;  // [B T, C] u, v and with a gate g, side by side
  float* pi = nullptr;           // [B T, H]: the router's products, then memberships times H
  float* base = nullptr;         // [B T, C], work
  float* y = nullptr;            // [B T, C], the result
  double* sums = nullptr;        // [B, H, P + 1]
  float* past = nullptr;         // [B, taps - 1, C]; null without a convolution
};

int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens);
void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel);

// The state's sums and earlier tokens, made where there are none and owned by nobody else. Throws a
// usage Error for those of another number of texts or another model.
struct MeansState {
  MeansState(const MeansWeights& weights, int64_t batch, MixerState& state);

  double* sums;
  float* past;
};

// One linear map. Integer weights are rounded as quantized_weight.h says.
struct StepWeight {
  StepWeight() = default;
  // weight [out, in], bias [out] or undefined, float32; a float32 weight is shared, not copied.
  StepWeight(const torch::Tensor& weight, const torch::Tensor& bias, kernels::WeightType type);

  int64_t outputs() const { return values.size(0); }
  int64_t bytes() const;                     // that a product reads
  torch::Tensor rounded() const;             // [out, in] float32
  void row(int64_t index, float* to) const;  // one of its rows in float32

  kernels::WeightType type = kernels::WeightType::kFloat32;
  int64_t inputs = 0;
  torch::Tensor values, scales, bias;
};

struct NormWeight {
  static constexpr float kEps = 1e-5f;  // of every norm of a language model

  explicit NormWeight(const LayerNorm& norm);
  torch::Tensor weight, bias;  // [C] float32; bias may be undefined
};

// What stands between a block's two projections.
enum class BlockMixer : uint8_t {
  kTssa,     // the operator of kernels/tssa_causal.h
  kMeans,    // running group means, kernels/group_means.h
  kSoftmax,  // attention with a key-value cache
  kModule,   // anything else: the module as a whole, on rounded weights
};

struct LanguageBlockWeights {
  LanguageBlockWeights(const Block& block, const LanguageConfig& config, kernels::WeightType type);

  BlockMixer kind;
  NormWeight norm1, norm2;
  StepWeight in, out;  // of the mixer; unused for kModule
  StepWeight fc, proj;
  StepWeight router;                  // kMeans
  MeansWeights means;                 // kMeans
  torch::Tensor gamma1, gamma2;       // [C] float32
  torch::Tensor temp, denom_bias;     // kTssa
  double scale = 1;                   // kTssa: of the operator's result
  std::shared_ptr<TokenMixer> mixer;  // kSoftmax, kModule
};

// Throws a usage Error unless a tensor of a block's state has these sizes, the texts first.
void check_state(const torch::Tensor& state, at::IntArrayRef sizes,
                 torch::ScalarType type = torch::kDouble);

struct LanguageWeights {
  // Shares the model's tensors and mixers where it can, so these must not change.
  LanguageWeights(const LanguageModel& model, Precision precision);

  int64_t step_bytes() const;  // that a step reads: all but the rows of the tables it looks up

  LanguageConfig config;
  kernels::WeightType type;
  StepWeight table;         // tokens, and head
  torch::Tensor positions;  // [block, C] float32, or undefined
  // Token and position [C] of one row.
  void embed(int64_t id, int64_t position, float* to) const;
  std::vector<LanguageBlockWeights> blocks;
  NormWeight norm;
  int64_t mlp_hidden = 0;
  kernels::Activation activation = kernels::Activation::kGelu;

 private:
  void gather();
};

}  // namespace tost
