// The branches of a block, each one differentiable function that keeps little for backward: of the
// MLP its input and the values before the GELU, of a mixer's maps their inputs. LayerNorm, GELU and
// gamma's product are computed again.
#pragma once

#include "tost/nn/layers.h"
#include "tost/torch.h"

namespace tost {

// Why the functions below do not take x and the parameters of `block`, for "layer by layer: ...";
// null where they do: in training on the CPU, with gradients wanted and no dropout of single
// values, all parameters being float32 and contiguous, and autocast off or to bfloat16. Otherwise
// blocks are made of the layers one by one, which is the definition.
const char* why_no_branches(const torch::Tensor& x, const torch::nn::Module& block,
                            double dropout = 0);

struct NormedMap {
  torch::Tensor residual;  // x again: its gradient is added to the norm's in one pass
  torch::Tensor mapped;    // map(norm(x)) [B, N, out], bfloat16 under autocast
};
// x [B, N, C] floating; residual is float32.
NormedMap norm_and_map(const torch::Tensor& x, const LayerNorm& norm, const Linear& map);

// x + keep gamma map(y): x [B, N, C] float32, y [B, N, K], gamma [C], keep as keep_factors() gives
// it.
torch::Tensor map_and_add(const torch::Tensor& x, const torch::Tensor& y, const Linear& map,
                          const torch::Tensor& gamma, const torch::Tensor& keep);

struct MlpBranch {
  const LayerNorm& norm;
  const Linear& in;
  const Linear& out;
  const torch::Tensor& gamma;  // [out]
  bool tanh_gelu = false;
  bool recompute = false;  // keep nothing but x: one product more in backward
};
// x + keep gamma out(GELU(in(norm(x)))) [B, N, C] float32. Under autocast the products are
// bfloat16; sums, statistics and the residual are float32 always.
torch::Tensor mlp_branch(const torch::Tensor& x, const MlpBranch& mlp, const torch::Tensor& keep);

}  // namespace tost
