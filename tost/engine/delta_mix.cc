#include <algorithm>
#include <cmath>

#include "tost/base/checked.h"
#include "tost/engine/mixers.h"
#include "tost/kernels/delta.h"

namespace tost {
namespace {

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

float square_sum(const float* x, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}

float log_of_decay(float x) {
  return x > 20 ? -x : -std::log1p(std::exp(x));
}

// Arrays of a head, a row of P numbers for each update of each token.
struct HeadRows {
  static int64_t bytes(int64_t updates, int64_t width) {
    return aligned(updates * (4 * width + 2) * int64_t{sizeof(float)});
  }

  HeadRows(const DeltaWeights& weights, int64_t tokens, void* workspace)
      : width(weights.dim / weights.heads), updates(tokens * weights.steps) {
    auto* next = static_cast<float*>(workspace);
    for (float** rows : {&q, &k, &v, &o}) next = (*rows = next) + updates * width;
    for (float** numbers : {&beta, &decay}) next = (*numbers = next) + updates;
    rest = static_cast<char*>(workspace) + bytes(updates, width);
  }

  kernels::DeltaArgs args(bool forgets) const {
    kernels::DeltaArgs a = sizes(updates, width);
    a.q = {q, 0, width, 0};
    a.k = {k, 0, width, 0};
    a.v = {v, 0, width, 0};
    a.o = {o, 0, width, 0};
    a.beta = {beta, 0, 1, 0};
    if (forgets) a.log_decay = {decay, 0, 1, 0};
    return a;
  }

  static kernels::DeltaArgs sizes(int64_t updates, int64_t width) {
    kernels::DeltaArgs a;
    a.samples = a.heads = 1;
    a.tokens = updates;
    a.keys = a.values = width;
    return a;
  }

  int64_t width, updates;
  float *q, *k, *v, *o, *beta, *decay;
  char* rest;  // workspace of the kernel
};

// Part `part` of token t after the convolution and SiLU, of norm 1 for a query or key.
void fill_row(const DeltaWeights& w, const DeltaMix& mix, int64_t head, int64_t t, int64_t part,
              float* to) {
  const int64_t row = w.parts() * w.dim, width = w.dim / w.heads;
  const int64_t first = part * w.dim + head * width;
  if (w.filter.defined()) {
    convolve_channels(w.filter, mix.parts, row, mix.past, t, {first, width}, to);
  } else {
    std::copy_n(mix.parts + t * row + first, width, to);
  }
  for (int64_t i = 0; i < width; ++i) to[i] *= sigmoid(to[i]);
  if (part > w.steps) return;
  const float scale = 1 / std::sqrt(square_sum(to, width) + 1e-6f);
  for (int64_t i = 0; i < width; ++i) to[i] *= scale;
}

void fill_token(const DeltaWeights& w, const DeltaMix& mix, int64_t head, int64_t t,
                const HeadRows& rows) {
  for (int64_t step = 0; step < w.steps; ++step) {
    const int64_t update = t * w.steps + step, at = update * rows.width;
    fill_row(w, mix, head, t, 0, rows.q + at);
    fill_row(w, mix, head, t, 1 + step, rows.k + at);
    fill_row(w, mix, head, t, 1 + w.steps + step, rows.v + at);
    rows.beta[update] = sigmoid(mix.beta[update * w.heads + head]) * w.beta_range;
    rows.decay[update] = 0;
  }
  if (!w.decay.defined()) return;
  const float shift = mix.forget == nullptr ? 0 : mix.forget[t * w.heads + head];
  rows.decay[t * w.steps] = log_of_decay(shift + w.decay.data()[head]);
}

// The part of one text.
DeltaMix of_text(const DeltaWeights& w, DeltaMix mix, int64_t text) {
  const int64_t rows = text * mix.tokens, row = w.parts() * w.dim;
  mix.parts += rows * row;
  mix.beta += rows * w.steps * w.heads;
  if (mix.forget != nullptr) mix.forget += rows * w.heads;
  if (mix.gate != nullptr) mix.gate += rows * w.dim;
  mix.y += rows * w.dim;
  mix.memory += text * w.dim * w.dim / w.heads;
  if (mix.past != nullptr) mix.past += text * (w.filter.size(0) - 1) * row;
  return mix;
}

}  // namespace

int64_t mix_delta_workspace(const DeltaWeights& w, int64_t tokens) {
  const int64_t updates = tokens * w.steps, width = w.dim / w.heads;
  return HeadRows::bytes(updates, width) +
         kernels::delta_workspace(HeadRows::sizes(updates, width), /*backward=*/false, 1);
}

void mix_delta(const DeltaWeights& w, const DeltaMix& all, int64_t index, void* workspace) {
  const DeltaMix mix = of_text(w, all, index / w.heads);
  const int64_t head = index % w.heads;
  const HeadRows rows(w, mix.tokens, workspace);
  const int64_t width = rows.width;
  for (int64_t t = 0; t < mix.tokens; ++t) fill_token(w, mix, head, t, rows);
  for (int64_t part = 0; part < w.parts() && mix.past != nullptr; ++part) {
    store_channels(w.filter, mix.parts, w.parts() * w.dim, mix.tokens,
                   {part * w.dim + head * width, width}, mix.past);
  }
  auto args = rows.args(w.decay.defined());
  args.state = args.next_state = mix.memory + head * width * width;
  kernels::delta_forward(args, rows.rest, serial_for, 1);
  for (int64_t t = 0; t < mix.tokens; ++t) {  // what a token reads after its last update
    const float* read = rows.o + ((t + 1) * w.steps - 1) * width;
    const float scale = 1 / std::sqrt(square_sum(read, width) / float(width) + 1e-5f);
    const int64_t first = t * w.dim + head * width;
    for (int64_t i = 0; i < width; ++i) mix.y[first + i] = read[i] * scale * w.norm.data()[i];
    if (mix.gate != nullptr) multiply_by_silu(mix.gate + first, width, mix.y + first);
  }
}

DeltaState::DeltaState(const DeltaWeights& w, int64_t batch, Arrays& state) : past(nullptr) {
  const int64_t width = w.dim / w.heads;
  memory = owned_state(state, "memory", {batch, w.heads, width, width}, TorchDtype::kFloat32)
               .mutable_data();
  if (!w.filter.defined()) return;
  const Array::Shape earlier{batch, w.filter.size(0) - 1, w.parts() * w.dim};
  past = owned_state(state, "conv", earlier, TorchDtype::kFloat32).mutable_data();
}

}  // namespace tost
