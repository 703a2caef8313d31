#include "tost/kinds/sequence/engine_head.h"

#include <algorithm>

namespace tost {
namespace {

template <class T>
void write_row(const float* from, int64_t count, T* to) {
  for (int64_t c = 0; c < count; ++c) to[c] = from[c];
}

// a, b, a * b and a - b side by side.
template <class T>
void write_pair(const float* a, const float* b, int64_t count, T* to) {
  for (int64_t c = 0; c < count; ++c) {
    to[c] = a[c];
    to[count + c] = b[c];
    to[2 * count + c] = a[c] * b[c];
    to[3 * count + c] = a[c] - b[c];
  }
}

template <class T>
void write_features(const float* first, const float* second, int64_t rows, int64_t dim, T* to) {
  for (int64_t r = 0; r < rows; ++r, first += dim) {
    if (second == nullptr) {
      write_row(first, dim, to + r * dim);
    } else {
      write_pair(first, second + r * dim, dim, to + r * 4 * dim);
    }
  }
}

}  // namespace

void run_sequence_head(const SequenceWeights& weights, const SequenceWorkspace& workspace,
                       int64_t tile_rows, const float* first, const float* second, int64_t batch,
                       float* logits) {
  const bool pairs = second != nullptr;
  const PackedLinear& last = pairs ? weights.pair_fc2 : weights.head;
  const bool half = last.packing() != Packing::kFloat32;
  const int64_t dim = weights.tokens.size(1), classes = last.outputs();
  void* scratch = workspace.scratch[0].product;
  for (int64_t i = 0; i < batch; i += tile_rows) {
    const int64_t rows = std::min(tile_rows, batch - i);
    const float *a = first + i * dim, *b = pairs ? second + i * dim : nullptr;
    half ? write_features(a, b, rows, dim, static_cast<at::BFloat16*>(workspace.features))
         : write_features(a, b, rows, dim, static_cast<float*>(workspace.features));
    PackedRows x{.rows = rows, .data = workspace.features, .stride = pairs ? 4 * dim : dim};
    if (pairs) {
      const int64_t hidden = weights.pair_fc1.outputs();
      weights.pair_fc1.run(x,
                           {.data = workspace.hidden,
                            .stride = hidden,
                            .dtype = half ? kernels::DType::kBfloat16 : kernels::DType::kFloat32,
                            .activation = kernels::Activation::kGelu},
                           scratch);
      x = {.rows = rows, .data = workspace.hidden, .stride = hidden};
    }
    last.run(x, {.data = logits + i * classes, .stride = classes}, scratch);
  }
  PackedLinear::release();
}

}  // namespace tost
