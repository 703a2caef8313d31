#include "tost/nn/causal_attention.h"

#include <algorithm>

#include "tost/nn/token_sums_scope.h"

namespace tost {

using torch::Tensor;

CausalAttention::CausalAttention(const CausalMixerConfig& config) : config_(config) {
  const int64_t c = config.dim;
  c_attn = register_module("c_attn", std::make_shared<Linear>(c, 3 * c, config.bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(c, c, config.bias));
  conv = add_conv(*this, 3 * c, config);
  gate = add_gate(*this, config);
}

Tensor CausalAttention::forward(const Tensor& x, const MixerCall& call) {
  const int64_t batch = x.size(0), tokens = x.size(1), dim = config_.dim;
  const auto qkv = convolved(conv, c_attn->forward(x), call);
  const auto parts =
      qkv.view({batch, tokens, 3, config_.heads, dim / config_.heads}).permute({2, 0, 3, 1, 4});
  const auto y = mix(parts[0], parts[1], parts[2], call.state).transpose(1, 2);
  return project_gated(y.reshape(x.sizes()), x, gate.get(), *c_proj, call.trace);
}

namespace {

// A mask [queries, keys], true if the query may see the key; the queries are the last tokens.
Tensor visible(int64_t queries, int64_t keys, int64_t window, torch::Device device) {
  const auto whole = torch::dtype(torch::kLong).device(device);
  const auto i = torch::arange(keys - queries, keys, whole).unsqueeze(1),
             j = torch::arange(keys, whole);
  auto seen = j <= i;
  return window > 0 ? seen.logical_and(j > i - window) : seen;
}

// The cached tokens and the new ones.
Tensor append(const Tensor& cached, const Tensor& fresh) {
  return cached.defined() ? torch::cat({cached, fresh}, 2) : fresh;
}

// Without the tokens that no later one sees. A copy frees the memory of these.
Tensor last_tokens(const Tensor& all, int64_t window) {
  if (window == 0) return all.contiguous();
  const int64_t count = std::min(all.size(2), window - 1);
  return all.narrow(2, all.size(2) - count, count).clone(at::MemoryFormat::Contiguous);
}

// Computes attention in a sliding window by blocks of queries, in time linear in the tokens.
Tensor windowed_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window,
                          double dropout) {
  const int64_t queries = q.size(2), before = k.size(2) - queries;
  const int64_t block = std::max<int64_t>(window, 512);
  std::vector<Tensor> out;
  for (int64_t i = 0; i < queries; i += block) {
    const int64_t count = std::min(block, queries - i), end = before + i + count;
    const int64_t begin = std::max<int64_t>(0, before + i - window + 1);
    out.push_back(at::scaled_dot_product_attention(
        q.narrow(2, i, count), k.narrow(2, begin, end - begin), v.narrow(2, begin, end - begin),
        visible(count, end - begin, window, q.device()), dropout));
  }
  return torch::cat(out, 2);
}

}  // namespace

Tensor CausalSoftmaxMixer::mix(const Tensor& q, const Tensor& k_new, const Tensor& v_new,
                               MixerState* state) {
  const int64_t window = config_.options.window, queries = q.size(2);
  Tensor k = k_new, v = v_new;
  if (state != nullptr) {
    auto &cached_k = (*state)["k"], &cached_v = (*state)["v"];
    k = append(cached_k, k_new.detach());
    v = append(cached_v, v_new.detach());
    cached_k = last_tokens(k, window);
    cached_v = last_tokens(v, window);
  }
  const int64_t keys = k.size(2);
  const double mixer_dropout = config_.options.attention_dropout;
  const double dropout = !is_training() ? 0 : mixer_dropout < 0 ? config_.dropout : mixer_dropout;
  const bool cut = window > 0 && keys > window;
  if (cut && queries > 0) return windowed_attention(q, k, v, window, dropout);
  if (queries == 1) return at::scaled_dot_product_attention(q, k, v, {}, dropout);
  if (keys == queries) {
    return at::scaled_dot_product_attention(q, k, v, {}, dropout, /*is_causal=*/true);
  }
  return at::scaled_dot_product_attention(q, k, v, visible(queries, keys, 0, q.device()), dropout);
}

Tensor CausalLinearMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v,
                              MixerState* state) {
  constexpr int64_t kChunk = 64;
  if (q.size(2) == 0) return q;
  const auto phi_q = torch::elu(q) + 1, phi_k = torch::elu(k) + 1;
  const auto ones = torch::ones({v.size(0), v.size(1), v.size(2), 1}, v.options());
  const auto values = torch::cat({v, ones}, -1);  // the last column sums φ(k)
  Tensor moments;
  if (state != nullptr) moments = (*state)["moments"];
  const TokenSums* places = state == nullptr ? TokenSumsScope::current() : nullptr;
  if (!moments.defined()) {
    moments = torch::zeros({q.size(0), q.size(1), q.size(3), q.size(3) + 1},
                           q.options().dtype(torch::kDouble));
  }
  std::vector<Tensor> out;
  // Uses split(), because the gradient of narrow() is as large as the whole tensor.
  const auto qs = phi_q.split(kChunk, 2), ks = phi_k.split(kChunk, 2), vs = values.split(kChunk, 2);
  for (size_t i = 0; i < qs.size(); ++i) {
    const auto &cq = qs[i], &ck = ks[i], &cv = vs[i];
    const auto near = torch::matmul(torch::matmul(cq, ck.transpose(2, 3)).tril(), cv);
    out.push_back(near + torch::matmul(cq, moments.to(cq.scalar_type())));
    moments = moments + torch::matmul(ck.transpose(2, 3), cv).to(torch::kDouble);
  }
  if (state != nullptr) (*state)["moments"] = moments.detach();
  auto sums = torch::cat(out, 2);
  if (places != nullptr) {
    sums = sums + torch::matmul(phi_q, places->before(moments).to(phi_q.scalar_type()));
  }
  return sums.narrow(-1, 0, v.size(3)) / (sums.narrow(-1, v.size(3), 1) + 1e-8);
}

}  // namespace tost
