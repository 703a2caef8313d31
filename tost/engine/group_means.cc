#include <algorithm>
#include <cmath>

#include "tost/engine/mixers.h"
#include "tost/kernels/means.h"
#include "tost/kernels/schedule.h"

namespace tost {

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
  a.in.decay = weights.decay.data<double>();
  a.in.scale = weights.scale.data();
  a.in.from_end = weights.from_end;
  a.state = a.next_state = mix.sums;
  a.y = {mix.y, mix.tokens * dim, dim};
  return a;
}

// Converts the router's products to memberships times H, in place.
void memberships(const MeansWeights& weights, float* row) {
  const int64_t heads = weights.heads;
  const auto* bias = weights.router_bias.data();
  const auto* temp = weights.temp.data();
  for (int64_t k = 0; k < heads; ++k) row[k] = (row[k] + bias[k]) * temp[k];
  const float top = *std::max_element(row, row + heads);
  float sum = 0.0f;
  for (int64_t k = 0; k < heads; ++k) sum += row[k] = std::exp(row[k] - top);
  for (int64_t k = 0; k < heads; ++k) row[k] *= float(heads) / sum;
}

}  // namespace

void convolve_channels(const Array& filter, const float* x, int64_t stride, const float* past,
                       int64_t t, Channels channels, float* out) {
  const int64_t taps = filter.size(0), width = filter.size(1);
  for (int64_t i = taps - 1; i >= 0; --i) {
    const int64_t from = t - (taps - 1) + i;
    const float* token = from >= 0 ? x + from * stride : past + (from + taps - 1) * width;
    const float *u = token + channels.first, *f = filter.data() + i * width + channels.first;
    if (i == taps - 1) std::fill_n(out, channels.count, 0.0f);
    for (int64_t c = 0; c < channels.count; ++c) out[c] += u[c] * f[c];
  }
}

void store_channels(const Array& filter, const float* x, int64_t stride, int64_t tokens,
                    Channels channels, float* past) {
  const int64_t earlier = filter.size(0) - 1, width = filter.size(1);
  for (int64_t i = 0; i < earlier; ++i) {
    const int64_t from = tokens - earlier + i;
    const float* token = from >= 0 ? x + from * stride : past + (from + earlier) * width;
    std::copy_n(token + channels.first, channels.count, past + i * width + channels.first);
  }
}

void convolve_texts(const Array& filter, int64_t batch, int64_t tokens, const float* x, float* past,
                    float* out) {
  const int64_t earlier = filter.size(0) - 1, width = filter.size(1);
  for (int64_t i = 0; i < batch; ++i, past += earlier * width, x += tokens * width) {
    for (int64_t t = 0; t < tokens; ++t, out += width) {
      convolve_channels(filter, x, width, past, t, {0, width}, out);
    }
    store_channels(filter, x, width, tokens, {0, width}, past);
  }
}

void multiply_by_silu(const float* gate, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] *= gate[i] / (1 + std::exp(-gate[i]));
}

Array forgetting_rates(const Array& decay, int64_t heads) {
  Array rates = Array::empty({heads}, TorchDtype::kFloat64);
  for (int64_t h = 0; h < heads; ++h) {
    rates.mutable_data<double>()[h] =
        decay.defined() ? 1 / (1 + std::exp(-double(decay.data()[h]))) : 1;
  }
  return rates;
}

int64_t MeansWeights::bytes() const {
  int64_t bytes = 0;
  for (const Array* x : {&router_bias, &temp, &filter, &scale, &decay}) {
    bytes += x->bytes();
  }
  return bytes;
}

int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens,
                            bool stateful) {
  kernels::MeansForwardArgs a;
  double in_place = 0;
  a.in.shape = {batch, tokens, weights.heads, weights.dim / weights.heads};
  a.in.from_end = weights.from_end;
  if (stateful) a.next_state = &in_place;
  return kernels::means_forward_workspace(a);
}

void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel) {
  const int64_t dim = weights.dim, rows = mix.batch * mix.tokens, stored = weights.taps() - 1;
  const int64_t stride = (weights.gate ? 3 : 2) * dim;
  const auto prepare = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      memberships(weights, mix.pi + r * weights.heads);
      if (!weights.filter.defined()) continue;
      const int64_t sample = r / mix.tokens, t = r % mix.tokens;
      convolve_channels(weights.filter, mix.parts + (r - t) * stride, stride,
                        mix.past + sample * stored * dim, t, {0, dim}, mix.base + r * dim);
    }
  };
  const int64_t tasks = (rows + kMixRows - 1) / kMixRows;
  parallel(tasks, [&](int64_t first, int64_t last) {
    prepare(first * kMixRows, std::min(rows, last * kMixRows));
  });
  for (int64_t i = 0; i < mix.batch && mix.past != nullptr; ++i) {
    store_channels(weights.filter, mix.parts + i * mix.tokens * stride, stride, mix.tokens,
                   {0, dim}, mix.past + i * stored * dim);
  }
  kernels::means_forward(means_args(weights, mix), workspace, parallel);
}

MeansState::MeansState(const MeansWeights& weights, int64_t batch, Arrays& state) : past(nullptr) {
  const int64_t width = weights.dim / weights.heads;
  sums = owned_state(state, "means", {batch, weights.heads, width + 1}, TorchDtype::kFloat64)
             .mutable_data<double>();
  if (!weights.filter.defined()) return;
  past = owned_state(state, "conv", {batch, weights.taps() - 1, weights.dim}, TorchDtype::kFloat32)
             .mutable_data();
}

}  // namespace tost
