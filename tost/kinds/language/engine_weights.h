// The weights of a language model as a decoding step reads them: each once, in the precision asked
// for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/kernels/few_rows.h"
#include "tost/kernels/row_ops.h"
#include "tost/kinds/language/engine_means.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"
#include "tost/ops/quantized_weight.h"

namespace tost {

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
  StepWeight router;                  // kMeans, unless membership is uniform
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
