#include "tost/models/causal_attention.h"

#include <algorithm>

namespace tost {

using torch::Tensor;

CausalAttention::CausalAttention(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, 3 * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  if (config.options.conv > 0) {
    conv = register_module("conv", std::make_shared<CausalConv>(3 * c, config.options.conv));
  }
}

Tensor CausalAttention::forward(const Tensor& x, const CausalCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2);
  auto qkv = c_attn->forward(x);
  if (conv != nullptr) {
    qkv = conv->forward(qkv, call.state != nullptr ? &(*call.state)["conv"] : nullptr);
  }
  const auto parts =
      qkv.view({batch, tokens, 3, config_.heads, dim / config_.heads}).permute({2, 0, 3, 1, 4});
  auto y = mix(parts[0], parts[1], parts[2], call.state);
  return c_proj->forward(y.transpose(1, 2).reshape({batch, tokens, dim}));
}

namespace {

// [queries, keys], true where a query may see a key; the queries are the last of the keys' tokens.
Tensor visible(int64_t queries, int64_t keys, int64_t window) {
  const auto i = torch::arange(keys - queries, keys).unsqueeze(1), j = torch::arange(keys);
  auto seen = j <= i;
  return window > 0 ? seen.logical_and(j > i - window) : seen;
}

// `kept` with `fresh` behind it along the tokens. Appends in place where kept's buffer has room
// (its head stride tells), else moves to a buffer twice as long: a token costs no copy of the
// cache.
Tensor append(const Tensor& kept, const Tensor& fresh) {
  if (!kept.defined()) return fresh.contiguous();
  const int64_t width = fresh.size(3), old = kept.size(2), count = old + fresh.size(2);
  const bool room =
      kept.stride(3) == 1 && kept.stride(2) == width && kept.stride(1) >= count * width;
  Tensor all;
  if (room) {
    all = kept.as_strided({kept.size(0), kept.size(1), count, width}, kept.strides());
  } else {
    auto buffer = torch::empty({kept.size(0), kept.size(1), 2 * count, width}, kept.options());
    all = buffer.narrow(2, 0, count);
    all.narrow(2, 0, old).copy_(kept);
  }
  all.narrow(2, old, fresh.size(2)).copy_(fresh);
  return all;
}

}  // namespace

Tensor CausalSoftmaxMixer::mix(const Tensor& q, const Tensor& k_new, const Tensor& v_new,
                               MixerState* state) {
  const int64_t window = config_.options.window, queries = q.size(2);
  Tensor k = k_new, v = v_new;
  if (state != nullptr) {
    auto &kept_k = (*state)["k"], &kept_v = (*state)["v"];
    k = append(kept_k, k_new.detach());
    v = append(kept_v, v_new.detach());
    const int64_t first = window > 0 ? std::max<int64_t>(0, k.size(2) - window + 1) : 0;
    kept_k = first > 0 ? k.narrow(2, first, k.size(2) - first).clone() : k;
    kept_v = first > 0 ? v.narrow(2, first, v.size(2) - first).clone() : v;
  }
  const int64_t keys = k.size(2);
  const double dropout = is_training() ? config_.dropout : 0.0;
  const bool all = queries == 1 && (window == 0 || keys <= window);
  if (all) return at::scaled_dot_product_attention(q, k, v, {}, dropout, /*is_causal=*/false);
  if (keys == queries && (window == 0 || window >= keys)) {
    return at::scaled_dot_product_attention(q, k, v, {}, dropout, /*is_causal=*/true);
  }
  return at::scaled_dot_product_attention(q, k, v, visible(queries, keys, window), dropout);
}

Tensor CausalLinearMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v,
                              MixerState* state) {
  constexpr int64_t kChunk = 64;
  const auto phi_q = torch::elu(q) + 1, phi_k = torch::elu(k) + 1;
  const auto ones = torch::ones({v.size(0), v.size(1), v.size(2), 1}, v.options());
  const auto values = torch::cat({v, ones}, -1);  // the last column sums φ(k)
  Tensor moments;
  if (state != nullptr) moments = (*state)["moments"];
  if (!moments.defined()) {
    moments = torch::zeros({q.size(0), q.size(1), q.size(3), q.size(3) + 1},
                           q.options().dtype(torch::kDouble));
  }
  std::vector<Tensor> out;
  for (int64_t t = 0; t < q.size(2); t += kChunk) {
    const int64_t count = std::min(kChunk, q.size(2) - t);
    const auto cq = phi_q.narrow(2, t, count), ck = phi_k.narrow(2, t, count),
               cv = values.narrow(2, t, count);
    const auto near = torch::matmul(torch::matmul(cq, ck.transpose(2, 3)).tril(), cv);
    const auto sums = near + torch::matmul(cq, moments.to(cq.scalar_type()));
    out.push_back(sums.narrow(-1, 0, v.size(3)) / (sums.narrow(-1, v.size(3), 1) + 1e-8));
    moments = moments + torch::matmul(ck.transpose(2, 3), cv).to(torch::kDouble);
  }
  if (state != nullptr) (*state)["moments"] = moments;
  return torch::cat(out, 2);
}

}  // namespace tost
