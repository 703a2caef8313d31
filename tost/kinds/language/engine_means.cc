
#include <algorithm>
#include <cmath>

#include "tost/kernels/means.h"
#include "tost/kernels/schedule.h"
#include "tost/kinds/language/engine_weights.h"

namespace tost {

using torch::Tensor;

namespace {

constexpr int64_t kMixRows = 64;  // of a convolution, on one thread

kernels::MeansForwardArgs means_args(const MeansWeights& weights, const MeansMix& mix) {
  const int64_t dim = weights.dim, row = (weights.gate ? 3 : 2) * dim;
  kernels::MeansForwardArgs a;
  a.in.shape = {mix.batch, mix.tokens, weights.heads, dim / weights.heads};
  a.in.values = {mix.parts + dim, mix.tokens * row, row};
  a.in.base = {mix.parts, mix.tokens * row, row};
  if (weights.filter.defined()) a.in.base = {mix.base, mix.tokens * dim, dim};
  if (weights.gate) a.in.gate = {mix.parts + 2 * dim, mix.tokens * row, row};
  a.in.pi = mix.pi;
  a.in.decay = weights.decay.const_data_ptr<double>();
  a.in.scale = weights.scale.const_data_ptr<float>();
  a.state = a.next_state = mix.sums;
  a.y = {mix.y, mix.tokens * dim, dim};
  return a;
}

// Products of the router to memberships times H, in place.
void memberships(const MeansWeights& weights, float* row) {
  const int64_t heads = weights.heads;
  const auto* bias = weights.router_bias.const_data_ptr<float>();
  const auto* temp = weights.temp.const_data_ptr<float>();
  for (int64_t k = 0; k < heads; ++k) row[k] = (row[k] + bias[k]) * temp[k];
  const float top = *std::max_element(row, row + heads);
  float sum = 0.0f;
  for (int64_t k = 0; k < heads; ++k) sum += row[k] = std::exp(row[k] - top);
  for (int64_t k = 0; k < heads; ++k) row[k] *= float(heads) / sum;
}

// Token t of a sample after the convolution; `u` and `past` are the sample's.
void convolve(const MeansWeights& weights, const float* u, int64_t stride, const float* past,
              int64_t t, float* out) {
  const int64_t taps = weights.taps(), dim = weights.dim;
  const auto* filter = weights.filter.const_data_ptr<float>();
  for (int64_t i = taps - 1; i >= 0; --i) {
    const int64_t from = t - (taps - 1) + i;
    const float* x = from >= 0 ? u + from * stride : past + (from + taps - 1) * dim;
    const float* f = filter + i * dim;
    if (i == taps - 1) {
      for (int64_t c = 0; c < dim; ++c) out[c] = x[c] * f[c];
    } else {
      for (int64_t c = 0; c < dim; ++c) out[c] += x[c] * f[c];
    }
  }
}

// The last tokens of a sample, for the call after.
void keep_past(const MeansWeights& weights, const float* u, int64_t stride, int64_t tokens,
               float* past) {
  const int64_t kept = weights.taps() - 1, dim = weights.dim;
  for (int64_t i = 0; i < kept; ++i) {
    const int64_t from = tokens - kept + i;
    std::copy_n(from >= 0 ? u + from * stride : past + (from + kept) * dim, dim, past + i * dim);
  }
}

// The state's tensor of that name in these sizes: zeros if there is none, a copy if it is shared.
Tensor& owned_state(MixerState& state, const char* name, at::IntArrayRef sizes,
                    torch::ScalarType type) {
  Tensor& x = state[name];
  if (!x.defined()) x = torch::zeros(sizes, type);
  check_state(x, sizes, type);
  if (x.use_count() > 1 || !x.is_contiguous()) x = x.clone(at::MemoryFormat::Contiguous);
  return x;
}

}  // namespace

MeansWeights::MeansWeights(const CausalMeansMixer& mixer) {
  const auto plain = [](const Tensor& x) { return x.detach().to(torch::kFloat).contiguous(); };
  const int64_t parts = mixer.c_attn->weight.size(0);
  dim = mixer.c_attn->weight.size(1);
  gate = parts == 3 * dim;
  scale = plain(mixer.means->scale);
  heads = mixer.head_count();
  router_bias = plain(mixer.router->bias);
  temp = plain(mixer.temp);
  if (mixer.conv != nullptr) filter = plain(mixer.conv->weight);
  const auto rates = mixer.rates->log_rates();
  decay = rates.defined() ? rates.detach().to(torch::kDouble).exp().contiguous()
                          : torch::ones({heads}, torch::kDouble);
}

int64_t MeansWeights::bytes() const {
  int64_t bytes = 0;
  for (const Tensor* x : {&router_bias, &temp, &filter, &scale, &decay}) {
    if (x->defined()) bytes += int64_t(x->nbytes());
  }
  return bytes;
}

int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens) {
  kernels::MeansForwardArgs a;
  double in_place = 0;
  a.in.shape = {batch, tokens, weights.heads, weights.dim / weights.heads};
  a.next_state = &in_place;
  return kernels::means_forward_workspace(a);
}

void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel) {
  const int64_t dim = weights.dim, rows = mix.batch * mix.tokens, kept = weights.taps() - 1;
  const int64_t stride = (weights.gate ? 3 : 2) * dim;
  const auto prepare = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      memberships(weights, mix.pi + r * weights.heads);
      if (!weights.filter.defined()) continue;
      const int64_t sample = r / mix.tokens, t = r % mix.tokens;
      convolve(weights, mix.parts + (r - t) * stride, stride, mix.past + sample * kept * dim, t,
               mix.base + r * dim);
    }
  };
  const int64_t tasks = (rows + kMixRows - 1) / kMixRows;
  parallel(tasks, [&](int64_t first, int64_t last) {
    prepare(first * kMixRows, std::min(rows, last * kMixRows));
  });
  for (int64_t i = 0; i < mix.batch && mix.past != nullptr; ++i) {
    keep_past(weights, mix.parts + i * mix.tokens * stride, stride, mix.tokens,
              mix.past + i * kept * dim);
  }
  kernels::means_forward(means_args(weights, mix), workspace, parallel);
}

MeansState::MeansState(const MeansWeights& weights, int64_t batch, MixerState& state)
    : past(nullptr) {
  const int64_t width = weights.dim / weights.heads;
  sums = owned_state(state, "means", {batch, weights.heads, width + 1}, torch::kDouble)
             .mutable_data_ptr<double>();
  if (!weights.filter.defined()) return;
  past = owned_state(state, "conv", {batch, weights.taps() - 1, weights.dim}, torch::kFloat)
             .mutable_data_ptr<float>();
}

}  // namespace tost
