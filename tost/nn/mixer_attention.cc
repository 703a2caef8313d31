#include "tost/nn/mixer_attention.h"

#include "tost/ops/plain.h"

namespace tost {
namespace {

// Unit length along dimension `dim`, the norm floored at 1e-12 as in the official code.
torch::Tensor normalized(const torch::Tensor& x, int64_t dim) {
  return x / x.norm(2, dim, /*keepdim=*/true).clamp_min(1e-12);
}

// x [B, H, N, P] with zeros at the padding.
torch::Tensor without_padding(const torch::Tensor& x, const torch::Tensor& own) {
  if (!own.defined()) return x;
  return x.masked_fill(own.logical_not().view({own.size(0), 1, own.size(1), 1}), 0);
}

}  // namespace

AttentionMixer::AttentionMixer(const MixerConfig& config) : heads_(config.heads) {
  qkv =
      register_module("qkv", std::make_shared<Linear>(config.dim, 3 * config.dim, config.qkv_bias));
  proj = register_module("proj", std::make_shared<Linear>(config.dim, config.dim, true));
}

torch::Tensor AttentionMixer::forward(const torch::Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2);
  auto parts =
      qkv->forward(x).view({batch, tokens, 3, heads_, dim / heads_}).permute({2, 0, 3, 1, 4});
  const auto own = call.lengths.defined() ? own_tokens(call.lengths, tokens) : torch::Tensor();
  auto y = mix(parts[0], parts[1], parts[2], own);
  return proj->forward(y.transpose(1, 2).reshape({batch, tokens, dim}));
}

torch::Tensor SoftmaxMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& own) {
  if (!own.defined()) return at::scaled_dot_product_attention(q, k, v);
  return at::scaled_dot_product_attention(q, k, v, own.view({own.size(0), 1, 1, own.size(1)}));
}

CrossCovarianceMixer::CrossCovarianceMixer(const MixerConfig& config) : AttentionMixer(config) {
  temperature = register_parameter("temperature", torch::ones({config.heads, 1, 1}));
}

torch::Tensor CrossCovarianceMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                        const torch::Tensor& v, const torch::Tensor& own) {
  // scores[i, j] = q̂ᵢ · k̂ⱼ over tokens [B, H, P, P]; feature i of the output averages the features
  // of v.
  auto scores = torch::matmul(normalized(without_padding(q, own), 2).transpose(2, 3),
                              normalized(without_padding(k, own), 2)) *
                temperature;
  return torch::matmul(v, scores.softmax(-1).transpose(2, 3));
}

torch::Tensor LinearAttentionMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                        const torch::Tensor& v, const torch::Tensor& own) {
  auto phi_q = torch::elu(q) + 1, phi_k = without_padding(torch::elu(k) + 1, own);
  // Mean instead of sum over tokens: the ratio is the same and half precision cannot overflow.
  auto moments = torch::matmul((phi_k / k.size(2)).transpose(2, 3), v);  // [B, H, P, P]
  auto mass =
      torch::matmul(phi_q, phi_k.mean(2, /*keepdim=*/true).transpose(2, 3));  // [B, H, N, 1]
  return torch::matmul(phi_q, moments) / mass;
}

}  // namespace tost
