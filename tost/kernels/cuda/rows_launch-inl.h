// How the passes over rows are queued; compiled by nvcc for the GPU and by the host's compiler for
// the emulator.
#include "tost/kernels/cuda/launch.h"
#include "tost/kernels/cuda/rows.cuh"
#include "tost/kernels/cuda/rows_cuda.h"
#include "tost/kernels/cuda/softmax_gradient.cuh"

namespace tost::kernels::cuda {
namespace {

int64_t splits_of(int64_t rows) {
  return (rows + kSplitRows - 1) / kSplitRows;
}
unsigned row_blocks(int64_t rows) {
  return grid_of((rows + kWarps - 1) / kWarps);
}

// Whether rows divide into packs of so many values, and all arrays lie where such packs of float32
// may.
template <class... Pointers>
bool in_packs(int64_t width, int64_t values, const Pointers*... pointers) {
  const auto aligned = [&](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % (static_cast<uintptr_t>(values) * sizeof(float)) == 0;
  };
  return width % values == 0 && (aligned(pointers) && ...);
}

template <int V, int kSums, class Op>
int queue_columns(const Op& op, float* partial, Stream stream) {
  const int64_t chunks = (op.a.width + kWarp * V - 1) / (kWarp * V);
  const auto pass = column_pass<Op, V, kSums>;
  constexpr int64_t kShared = kSums > 0 ? kRowThreads * V * sizeof(float) : 0;
  TOST_LAUNCH(pass, grid_of(chunks * splits_of(op.a.rows)), kRowThreads, kShared, stream, op,
              op.a.rows, op.a.width, partial);
  return last_error();
}
template <class Args>
void queue_column_sum(const Args& a, const float* partial, float* sums, Stream stream) {
  if (sums == nullptr) return;
  queue_sum_rows(partial, 1, splits_of(a.rows), a.width, kPartsOfChannels, sums, stream);
}

// run<T, V>() for the type, V being 1 or, of both types, `kPacked`.
template <int kPacked, class Run>
int for_type(DType dtype, bool packed, Run run) {
  if (dtype == DType::kBfloat16) {
    return packed ? run.template operator()<Bfloat16, kPacked>()
                  : run.template operator()<Bfloat16, 1>();
  }
  return packed ? run.template operator()<float, 4>() : run.template operator()<float, 1>();
}

}  // namespace

int64_t column_sums_workspace(int64_t rows, int64_t width) {
  return splits_of(rows) * width;
}

int norm_forward(const NormForwardArgs& a, Stream stream) {
  return for_type<4>(a.dtype, in_packs(a.width, 4, a.x, a.weight, a.bias, a.y),
                     [&]<class T, int V>() {
                       const auto rows = norm_rows<T, V>;
                       TOST_LAUNCH(rows, row_blocks(a.rows), kRowThreads, 0, stream, a);
                       return last_error();
                     });
}

int norm_backward(const NormBackwardArgs& a, Stream stream) {
  const bool packed = in_packs(a.width, 4, a.x, a.weight, a.grad_y, a.grad_residual, a.grad_x);
  return for_type<4>(a.dtype, packed, [&]<class T, int V>() {
    const auto rows = norm_gradient_rows<T, V>;
    const int error = queue_columns<V, 2>(NormSums<T, V>{a}, a.workspace, stream);
    if (error != 0) return error;
    queue_column_sum(a, a.workspace, a.grad_weight, stream);
    queue_column_sum(a, a.workspace + splits_of(a.rows) * a.width, a.grad_bias, stream);
    TOST_LAUNCH(rows, row_blocks(a.rows), kRowThreads, 0, stream, a);
    return last_error();
  });
}

int gelu_forward(const GeluForwardArgs& a, Stream stream) {
  const bool packed = in_packs(a.width, 8, a.h, a.bias, a.a);
  return for_type<8>(a.dtype, packed, [&]<class T, int V>() {
    return a.tanh ? queue_columns<V, 0>(GeluForward<T, V, true>{a}, nullptr, stream)
                  : queue_columns<V, 0>(GeluForward<T, V, false>{a}, nullptr, stream);
  });
}

int gelu_backward(const GeluBackwardArgs& a, Stream stream) {
  const bool packed = in_packs(a.width, 8, a.h, a.bias, a.grad_a, a.grad_h, a.a);
  const int error = for_type<8>(a.dtype, packed, [&]<class T, int V>() {
    const auto queue = [&](const auto& op) {
      return a.grad_bias != nullptr ? queue_columns<V, 1>(op, a.workspace, stream)
                                    : queue_columns<V, 0>(op, nullptr, stream);
    };
    return a.tanh ? queue(GeluBackward<T, V, true>{a}) : queue(GeluBackward<T, V, false>{a});
  });
  if (error != 0) return error;
  queue_column_sum(a, a.workspace, a.grad_bias, stream);
  return last_error();
}

int scaled_add(const ScaledAddArgs& a, Stream stream) {
  const bool packed = in_packs(a.width, 4, a.x, a.branch, a.bias, a.gamma, a.y);
  return for_type<4>(a.dtype, packed, [&]<class T, int V>() {
    return queue_columns<V, 0>(ScaledAdd<T, V>{a}, nullptr, stream);
  });
}

int kept_gradient(const KeptGradientArgs& a, Stream stream) {
  const bool packed = in_packs(a.width, 4, a.grad_y, a.kept);
  const int error = for_type<4>(a.dtype, packed, [&]<class T, int V>() {
    return queue_columns<V, 1>(KeptGradient<T, V>{a}, a.workspace, stream);
  });
  if (error != 0) return error;
  queue_column_sum(a, a.workspace, a.sums, stream);
  return last_error();
}

int scale_rows(const ScaleRowsArgs& a, Stream stream) {
  KeptGradientArgs rows;
  rows.rows = a.rows, rows.width = a.width, rows.dtype = a.dtype;
  rows.grad_y = a.weight, rows.keep = a.gamma, rows.kept = a.scaled;
  return for_type<4>(a.dtype, in_packs(a.width, 4, a.weight, a.scaled), [&]<class T, int V>() {
    return queue_columns<V, 0>(KeptGradient<T, V>{rows}, nullptr, stream);
  });
}

int gamma_gradient(const GammaGradientArgs& a, Stream stream) {
  return for_type<4>(a.dtype, in_packs(a.width, 4, a.weight, a.product), [&]<class T, int V>() {
    const auto rows = gamma_rows<T, V>;
    TOST_LAUNCH(rows, row_blocks(a.rows), kRowThreads, 0, stream, a);
    return last_error();
  });
}

int softmax_gradient(const SoftmaxGradientArgs& a, Stream stream) {
  return for_type<8>(
      a.dtype, in_packs(a.width, 8, static_cast<float*>(a.logits)), [&]<class T, int V>() {
        const auto pass = softmax_gradient_pass<T, V>;
        TOST_LAUNCH(pass, grid_of(a.rows), kSoftmaxThreads, kSoftmaxBytes, stream, a);
        return last_error();
      });
}

}  // namespace tost::kernels::cuda
