#include "tost/kinds/vision/class_attention.h"

#include <cmath>

namespace tost {

ClassAttention::ClassAttention(int64_t dim, int64_t heads, bool qkv_bias) : heads_(heads) {
  qkv = register_module("qkv", std::make_shared<Linear>(dim, 3 * dim, qkv_bias));
  proj = register_module("proj", std::make_shared<Linear>(dim, dim, true));
}

torch::Tensor ClassAttention::forward(const torch::Tensor& cls, const torch::Tensor& tokens,
                                      torch::Tensor* weights) {
  const int64_t batch = tokens.size(0), dim = tokens.size(2), head = dim / heads_;
  auto of_cls = qkv->forward(cls);                           // [B, 1, 3C]
  auto of_tokens = qkv->forward_rows(tokens, dim, 2 * dim);  // [B, N, 2C]
  auto q = of_cls.narrow(2, 0, dim).view({batch, 1, heads_, head}).transpose(1, 2);
  auto kv = torch::cat({of_cls.narrow(2, dim, 2 * dim), of_tokens}, 1)
                .view({batch, -1, 2, heads_, head})
                .permute({2, 0, 3, 1, 4});  // [2, B, H, 1 + N, P]
  auto k = kv[0], v = kv[1];
  if (weights != nullptr) {
    const double scale = 1 / std::sqrt(static_cast<double>(head));
    *weights = (torch::matmul(q, k.transpose(2, 3)) * scale).softmax(-1).squeeze(2);
  }
  auto y = at::scaled_dot_product_attention(q, k, v);  // [B, H, 1, P]
  return proj->forward(y.transpose(1, 2).reshape({batch, 1, dim}));
}

ClassAttentionBlock::ClassAttentionBlock(const BlockConfig& config, int64_t heads, bool qkv_bias,
                                         bool tokens_norm)
    : tokens_norm_(tokens_norm) {
  norm1 = register_module("norm1", std::make_shared<LayerNorm>(config.dim));
  attn = register_module("attn", std::make_shared<ClassAttention>(config.dim, heads, qkv_bias));
  norm2 = register_module("norm2", std::make_shared<LayerNorm>(config.dim));
  mlp = register_module("mlp", std::make_shared<Mlp>(config.dim, config.mlp_hidden));
  gamma1 = register_parameter("gamma1", torch::full({config.dim}, config.layer_scale));
  gamma2 = register_parameter("gamma2", torch::full({config.dim}, config.layer_scale));
}

ClassState ClassAttentionBlock::forward(const ClassState& x, bool last, torch::Tensor* weights) {
  auto normed = norm1->forward(x.tokens);
  auto attended = attn->forward(norm1->forward(x.cls), normed, weights);
  auto cls = norm2->forward(add_scaled(x.cls, gamma1, attended));
  ClassState out;
  out.cls = add_scaled(cls, gamma2, mlp->forward(cls));
  if (!last) {
    auto mixed = add_scaled(x.tokens, gamma1, normed);
    out.tokens = tokens_norm_ ? norm2->forward_doubled(mixed) : mixed * 2;
  }
  return out;
}

}  // namespace tost
