// How calls of group means are queued; compiled by nvcc for the GPU and by the host's compiler for
// the emulator.
#include "tost/kernels/cuda/causal_cut.h"
#include "tost/kernels/cuda/means.cuh"
#include "tost/kernels/cuda/means_cuda.h"

namespace tost::kernels::cuda {
namespace {

template <class... Arrays>
CausalCut means_cut(const MeansInputs& in, const Arrays&... arrays) {
  return causal_cut(in.shape, in.dtype, in.values, in.base, in.gate, arrays...);
}

template <class T>
MeansIn<T> means_in(const MeansInputs& in) {
  return {tokens_in<T>(in.values),
          tokens_in<T>(in.base),
          tokens_in<T>(in.gate),
          in.pi,
          in.decay,
          in.scale,
          static_cast<int>(in.from_end)};
}

int64_t means_shared(const CausalCut& cut) {
  const int64_t rows = int64_t{cut.rows} * cut.width, tokens = int64_t{kChunk} * cut.lanes;
  return (MeansTile::kNumbers + std::max(rows, tokens)) * int64_t{sizeof(float)};
}

struct MeansForwardScratch {
  MeansForwardScratch(const MeansForwardArgs& args, const CausalCut& cut, void* base)
      : pieces(base) {
    const int64_t sums = cut.batch * cut.chunks * means_state_size(args.in.shape);
    partial = pieces.take(sums);
    carry = pieces.take_unless(args.carry, sums);
  }
  Pieces pieces;
  float *partial, *carry;
};
struct MeansBackwardScratch {
  MeansBackwardScratch(const CausalCut& cut, void* base) : pieces(base) {
    const int64_t rows = cut.batch * cut.chunks, channels = cut.channels();
    partial = pieces.take(rows * (channels + cut.heads));
    after = pieces.take(rows * (channels + cut.heads));
    slope = pieces.take(cut.batch * cut.heads * cut.tokens);
    scale_part = pieces.take(rows * channels);
    decay_part = pieces.take(rows * cut.heads);
  }
  Pieces pieces;
  float *partial, *after, *slope, *scale_part, *decay_part;
};

// kBehind: of the chunks after each.
template <bool kBehind>
void queue_means_scan(const MeansInputs& in, const CausalCut& cut, const float* partial,
                      const double* state, double* next_state, float* result, Stream stream) {
  const auto scan = scan_chunks<float, kBehind, MeansLeft>;
  const int parts = scan_parts(cut);
  const int64_t width = means_state_size(in.shape);
  const MeansLeft left{in.decay, cut.width + 1, cut.tokens - (cut.chunks - 1) * kChunk};
  TOST_LAUNCH(scan, column_blocks(cut.batch * width, parts), kBlockThreads, kColumnBytes, stream,
              partial, cut.batch, cut.chunks, width, parts, state, next_state, width, result, left);
}

template <class T>
int run_means_step(const MeansForwardArgs& args, const CausalCut& cut, Stream stream) {
  const auto step = means_step<T>;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(cut.channels(), 32, kStepThreads));
  TOST_LAUNCH(step, grid_of(cut.batch), threads, 0, stream, means_in<T>(args.in), cut, args.state,
              args.next_state, tokens_out<T>(args.y));
  return last_error();
}

template <class T, int V, int K, int kThreads>
int run_means(const MeansForwardArgs& args, const CausalCut& cut, void* workspace, Stream stream) {
  if (cut.tokens == 1 && args.carry == nullptr) return run_means_step<T>(args, cut, stream);
  const MeansForwardScratch scratch(args, cut, workspace);
  const auto in = means_in<T>(args.in);
  const unsigned grid = chunk_blocks(cut), block = static_cast<unsigned>(cut.threads());
  const int64_t shared = means_shared(cut);
  const auto sum = means_sum_pass<T, V, K, kThreads>;
  const auto output = means_output_pass<T, V, K, kThreads>;
  for (const int error : {allow_shared(sum, shared), allow_shared(output, shared)}) {
    if (error != 0) return error;
  }
  TOST_LAUNCH(sum, grid, block, shared, stream, in, cut, scratch.partial);
  queue_means_scan<false>(args.in, cut, scratch.partial, args.state, args.next_state, scratch.carry,
                          stream);
  TOST_LAUNCH(output, grid, block, shared, stream, in, cut, scratch.carry, tokens_out<T>(args.y));
  return last_error();
}

template <class T, int V, int K, int kThreads>
int run_means_backward(const MeansBackwardArgs& args, const CausalCut& cut, void* workspace,
                       Stream stream) {
  const MeansBackwardScratch scratch(cut, workspace);
  const auto in = means_in<T>(args.in);
  const auto grad = tokens_in<T>(args.grad_y);
  const MeansGradients<T> out{tokens_out<T>(args.grad_values), tokens_out<T>(args.grad_base),
                              tokens_out<T>(args.grad_gate), args.grad_pi, scratch.decay_part};
  const unsigned grid = chunk_blocks(cut), block = static_cast<unsigned>(cut.threads());
  const int64_t shared = means_shared(cut), rows = cut.batch * cut.chunks;
  const auto slope = means_slope_pass<T, V, K, kThreads>;
  const auto gradient = means_gradient_pass<T, V, K, kThreads>;
  for (const int error : {allow_shared(slope, shared), allow_shared(gradient, shared)}) {
    if (error != 0) return error;
  }
  TOST_LAUNCH(slope, grid, block, shared, stream, in, grad, cut, args.carry, scratch.partial,
              scratch.slope, scratch.scale_part);
  queue_means_scan<true>(args.in, cut, scratch.partial, nullptr, nullptr, scratch.after, stream);
  TOST_LAUNCH(gradient, grid, block, shared, stream, in, grad, cut, args.carry, scratch.after,
              scratch.slope, out);
  queue_sum_rows(scratch.scale_part, 1, rows, cut.channels(), kPartsOfChannels, args.grad_scale,
                 stream);
  queue_sum_rows(scratch.decay_part, 1, rows, cut.heads, kPartsOfHeads, args.grad_decay, stream);
  return last_error();
}

CausalCut cut_of(const MeansForwardArgs& args) {
  return means_cut(args.in, args.y);
}
CausalCut cut_of(const MeansBackwardArgs& args) {
  return means_cut(args.in, args.grad_y, args.grad_values, args.grad_base, args.grad_gate);
}

}  // namespace

int64_t means_workspace(const MeansForwardArgs& args) {
  return MeansForwardScratch(args, cut_of(args), nullptr).pieces.used();
}
int64_t means_workspace(const MeansBackwardArgs& args) {
  return MeansBackwardScratch(cut_of(args), nullptr).pieces.used();
}

int means_forward(const MeansForwardArgs& args, void* workspace, Stream stream) {
  const CausalCut cut = cut_of(args);
  return for_causal_call(args.in.dtype, cut, [&]<class T, int V, int K, int kThreads>() {
    return run_means<T, V, K, kThreads>(args, cut, workspace, stream);
  });
}
int means_backward(const MeansBackwardArgs& args, void* workspace, Stream stream) {
  const CausalCut cut = cut_of(args);
  return for_causal_call(args.in.dtype, cut, [&]<class T, int V, int K, int kThreads>() {
    return run_means_backward<T, V, K, kThreads>(args, cut, workspace, stream);
  });
}

}  // namespace tost::kernels::cuda
