// The weights of a transformer block as the engines of bidirectional models read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tost/kernels/tssa.h"
#include "tost/nn/block.h"
#include "tost/ops/packed_linear.h"
#include "tost/torch.h"

namespace tost {

struct NormWeights {
  torch::Tensor weight, bias;  // [C] float32, bias may be undefined
};

// Whether the engines can pack its weights: all of them are float32 on the CPU.
bool packable(const torch::nn::Module& model);

// How tokens meet in a block.
enum class EngineMixer : uint8_t {
  kTssa,    // by the kernel
  kNone,    // not at all
  kModule,  // by the module's own forward
};

struct TokenBlockWeights {
  NormWeights norm1, norm2;
  EngineMixer mixer = EngineMixer::kModule;
  PackedLinear in, out;              // unless kModule
  torch::Tensor temp;                // [H], kTssa
  kernels::TssaAdditions additions;  // kTssa
  std::shared_ptr<TokenMixer> module;
  PackedLinear fc1, fc2;
  // Gamma is part of `out` and fc2, which add onto the residual stream itself; their biases times
  // gamma [C] follow with the next norm.
  torch::Tensor out_shift, fc2_shift;
  torch::Tensor gamma1, gamma2;  // [C]
};

// Copies, but for a mixer that is called as a module, which is shared. `name` stands before the
// names of the block's tensors ("blocks.0.") in the data Error for weights that are not finite
// where they are to become whole numbers.
TokenBlockWeights token_block_weights(const Block& block, Packing packing, const std::string& name);

// That Error, where one of the values is not finite.
void check_roundable(const torch::Tensor& weight, const std::string& name);

// fp32, bf16 or int8; throws a usage Error for other names.
Packing packing_of(const std::string& precision);

// A copy as contiguous float32; undefined stays so.
torch::Tensor weight_values(const torch::Tensor& parameter);
NormWeights norm_weights(const LayerNorm& norm, float factor = 1);
PackedLinear packed_map(const Linear& linear, Packing packing);

// The numbers, null for an undefined tensor.
inline const float* data(const torch::Tensor& values) {
  return values.defined() ? values.const_data_ptr<float>() : nullptr;
}

}  // namespace tost
