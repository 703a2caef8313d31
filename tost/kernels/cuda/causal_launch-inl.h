// How causal calls are queued; compiled by nvcc for the GPU and by the host's compiler for the
// emulator.
#include "tost/kernels/cuda/causal_backward.cuh"
#include "tost/kernels/cuda/launch.h"
#include "tost/kernels/cuda/tssa_cuda.h"

namespace tost::kernels::cuda {
namespace {

constexpr int kCausalPack = 4;  // channels of a thread

// Keeps the threads of the widest head within kMostThreads.
template <class... Arrays>
CausalCut causal_cut(const TssaShape& shape, DType dtype, const Arrays&... arrays) {
  const int64_t bytes = element_size(dtype);
  const bool whole = shape.width % kCausalPack == 0 && (packs(arrays, bytes, kCausalPack) && ...);
  CausalCut cut{};
  cut.batch = shape.batch;
  cut.tokens = shape.tokens;
  cut.chunks = causal_chunks(shape.tokens);
  cut.heads = static_cast<int>(shape.heads);
  cut.width = static_cast<int>(shape.width);
  cut.lanes = static_cast<int>(whole ? shape.width / kCausalPack : shape.width);
  // Few threads with many tokens each, while registers last; a wide head needs more of them to stay
  // within a block whose threads have registers enough.
  cut.rows = kChunk / (cut.lanes <= 16 ? 4 : cut.lanes <= 32 ? 8 : whole ? 8 : 32);
  return cut;
}

// Threads for a column of scan_chunks(): as many as its chunks keep busy.
int scan_parts(const CausalCut& cut) {
  int parts = 1;
  while (parts < kPartsOfChannels && int64_t{parts} * kScanChunks < cut.chunks) parts *= 2;
  return parts;
}

unsigned chunk_blocks(const CausalCut& cut) {
  return grid_of(cut.batch * cut.chunks * cut.heads);
}

// run<T, V, K, threads>() for the storage and cut of a call.
template <class T, class Run>
int for_causal_cut(const CausalCut& cut, Run run) {
  const bool packed = cut.lanes < cut.width;
  const int tokens = kChunk / cut.rows;
  if (tokens == 8 && cut.threads() <= kBlockThreads) {
    return packed ? run.template operator()<T, kCausalPack, 8, 256>()
                  : run.template operator()<T, 1, 8, 256>();
  }
  if (tokens == 4 && cut.threads() <= kBlockThreads) {
    return packed ? run.template operator()<T, kCausalPack, 4, 256>()
                  : run.template operator()<T, 1, 4, 256>();
  }
  return packed ? run.template operator()<T, kCausalPack, 8, kMostThreads>()
                : run.template operator()<T, 1, 32, kMostThreads>();
}
template <class Run>
int for_causal_call(DType dtype, const CausalCut& cut, Run run) {
  switch (dtype) {
    case DType::kFloat32:
      return for_causal_cut<float>(cut, run);
    case DType::kBfloat16:
      return for_causal_cut<Bfloat16>(cut, run);
    case DType::kFloat16:
      return for_causal_cut<Float16>(cut, run);
  }
  return 1;
}

int64_t causal_shared(const CausalCut& cut) {
  const int64_t rows = int64_t{cut.rows} * cut.width, tokens = int64_t{kChunk} * cut.lanes;
  return (3 * kChunk + std::max(rows, tokens)) * int64_t{sizeof(float)};
}

struct CausalScratch {
  CausalScratch(const CausalCut& cut, void* base) : pieces(base) {
    partial = pieces.take(cut.batch * cut.chunks * cut.channels());
    partial_head = pieces.take(cut.batch * cut.chunks * cut.heads);
  }
  Pieces pieces;
  float *partial, *partial_head;
};
struct CausalForwardScratch : CausalScratch {
  CausalForwardScratch(const CausalForwardArgs& args, const CausalCut& cut, void* base)
      : CausalScratch(cut, base) {
    carry = pieces.take_unless(args.carry, 2 * cut.batch * cut.chunks * cut.channels());
    pi = pieces.take_unless(args.pi, cut.batch * cut.heads * cut.tokens);
    pi_carry = args.pi_carry;
    if (pi_carry == nullptr) {
      pi_carry = reinterpret_cast<double*>(pieces.take(2 * cut.batch * cut.chunks * cut.heads));
    }
  }
  float *carry, *pi;
  double* pi_carry;
};
struct CausalBackwardScratch : CausalScratch {
  CausalBackwardScratch(const CausalCut& cut, void* base) : CausalScratch(cut, base) {
    moment = pieces.take(cut.batch * cut.chunks * cut.channels());
    logit = pieces.take(cut.batch * cut.chunks * cut.channels());
    spread_behind = pieces.take(cut.batch * cut.chunks * cut.heads);
    spread = pieces.take(cut.batch * cut.heads * cut.tokens);
    logits = pieces.take(cut.batch * cut.heads * cut.tokens);
    grad_logit = pieces.take(cut.batch * cut.heads * cut.tokens);
  }
  float *moment, *logit, *spread_behind, *spread, *logits, *grad_logit;
};

int64_t step_shared(const TssaShape& shape) {
  return (shape.channels() + 2 * shape.heads) * int64_t{sizeof(float)};
}

template <class T>
int run_step(const CausalForwardArgs& args, const CausalCut& cut, Stream stream) {
  const auto step = causal_step<T>;
  const int64_t bytes = step_shared(args.shape);
  if (const int error = allow_shared(step, bytes)) return error;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>(cut.channels(), 32, kStepThreads));
  TOST_LAUNCH(step, grid_of(cut.batch), threads, bytes, stream, tokens_in<T>(args.w), cut,
              args.temp, (BiasIn{args.bias.data, args.bias.length, args.bias.position}), args.state,
              args.next_state, args.pi, tokens_out<T>(args.y));
  return last_error();
}

template <class T, int V, int K, int kThreads>
int run_causal(const CausalForwardArgs& args, const CausalCut& cut, void* workspace,
               Stream stream) {
  const CausalForwardScratch scratch(args, cut, workspace);
  const auto w = tokens_in<T>(args.w);
  const BiasIn bias{args.bias.data, args.bias.length, args.bias.position};
  const unsigned grid = chunk_blocks(cut), block = static_cast<unsigned>(cut.threads());
  const int64_t shared = causal_shared(cut), channels = cut.channels();
  const int64_t state_size = 2 * channels + cut.heads;
  float* moment_carry = scratch.carry + cut.batch * cut.chunks * channels;
  const auto part = [](auto* state, int64_t offset) {
    return state != nullptr ? state + offset : nullptr;
  };
  const auto energy = causal_energy_pass<T, V, K, kThreads>;
  const auto logit = causal_logit_pass<T, V, K, kThreads>;
  const auto moment = causal_moment_pass<T, V, K, kThreads>;
  const auto output = causal_output_pass<T, V, K, kThreads>;
  const int parts = scan_parts(cut);
  const unsigned channel_blocks = column_blocks(cut.batch * channels, parts);
  const auto scan = scan_chunks<float, false>;
  const auto scan_double = scan_chunks<double, false>;
  for (const int error : {allow_shared(energy, shared), allow_shared(logit, shared),
                          allow_shared(moment, shared), allow_shared(output, shared)}) {
    if (error != 0) return error;
  }
  TOST_LAUNCH(energy, grid, block, shared, stream, w, cut, scratch.partial);
  TOST_LAUNCH(scan, channel_blocks, kBlockThreads, kColumnBytes, stream, scratch.partial, cut.batch,
              cut.chunks, channels, parts, args.state, args.next_state, state_size, scratch.carry);
  TOST_LAUNCH(logit, grid, block, shared, stream, w, cut, scratch.carry, bias, args.temp,
              scratch.pi);
  TOST_LAUNCH(causal_softmax, blocks_of(cut.batch * cut.tokens), kBlockThreads, 0, stream, cut,
              scratch.pi);
  TOST_LAUNCH(moment, grid, block, shared, stream, w, cut, scratch.pi, scratch.partial,
              scratch.partial_head);
  TOST_LAUNCH(scan, channel_blocks, kBlockThreads, kColumnBytes, stream, scratch.partial, cut.batch,
              cut.chunks, channels, parts, part(args.state, channels),
              part(args.next_state, channels), state_size, moment_carry);
  TOST_LAUNCH(scan_double, column_blocks(cut.batch * cut.heads, parts), kBlockThreads, kColumnBytes,
              stream, scratch.partial_head, cut.batch, cut.chunks, int64_t{cut.heads}, parts,
              part(args.state, 2 * channels), part(args.next_state, 2 * channels), state_size,
              scratch.pi_carry);
  TOST_LAUNCH(output, grid, block, shared, stream, w, cut,
              (MomentSums{moment_carry, scratch.pi_carry, scratch.pi}), tokens_out<T>(args.y));
  return last_error();
}

template <class T, int V, int K, int kThreads>
int run_causal_backward(const CausalBackwardArgs& args, const CausalCut& cut, void* workspace,
                        Stream stream) {
  const CausalBackwardScratch scratch(cut, workspace);
  const auto w = tokens_in<T>(args.w), grad = tokens_in<T>(args.grad_y);
  const BiasIn bias{args.bias.data, args.bias.length, args.bias.position};
  const unsigned grid = chunk_blocks(cut), block = static_cast<unsigned>(cut.threads());
  const int64_t shared = causal_shared(cut), channels = cut.channels();
  const int64_t rows = cut.batch * cut.chunks;
  const double* no_state = nullptr;
  double* no_totals = nullptr;
  const float* one = nullptr;
  const MomentSums sums{args.carry + rows * channels, args.pi_carry, args.pi};
  const Behind behind{scratch.moment, scratch.spread_behind, scratch.logit};
  const auto alignment = causal_alignment_pass<T, V, K, kThreads>;
  const auto share = causal_share_pass<T, V, K, kThreads>;
  const auto logit = causal_logit_pass<T, V, K, kThreads>;
  const auto term = causal_term_pass<T, V, K, kThreads>;
  const auto gradient = causal_gradient_pass<T, V, K, kThreads>;
  const auto scan = scan_chunks<float, true>;
  for (const int error :
       {allow_shared(alignment, shared), allow_shared(share, shared), allow_shared(logit, shared),
        allow_shared(term, shared), allow_shared(gradient, shared)}) {
    if (error != 0) return error;
  }
  const int parts = scan_parts(cut);
  const auto scan_back = [&](const float* partial, int64_t width, float* result) {
    TOST_LAUNCH(scan, column_blocks(cut.batch * width, parts), kBlockThreads, kColumnBytes, stream,
                partial, cut.batch, cut.chunks, width, parts, no_state, no_totals, width, result);
  };
  TOST_LAUNCH(alignment, grid, block, shared, stream, w, grad, cut, sums, scratch.partial,
              scratch.spread);
  scan_back(scratch.partial, channels, scratch.moment);
  TOST_LAUNCH(sum_of_chunks, blocks_of(rows * cut.heads), kBlockThreads, 0, stream, cut,
              scratch.spread, scratch.partial_head);
  scan_back(scratch.partial_head, cut.heads, scratch.spread_behind);
  TOST_LAUNCH(share, grid, block, shared, stream, w, grad, cut, sums, behind, scratch.spread,
              args.grad_pi, scratch.grad_logit);
  TOST_LAUNCH(logit, grid, block, shared, stream, w, cut, args.carry, bias, one, scratch.logits);
  TOST_LAUNCH(causal_softmax_gradient, blocks_of(cut.batch * cut.tokens), kBlockThreads, 0, stream,
              cut, args.pi, args.temp, scratch.grad_logit, scratch.logits);
  TOST_LAUNCH(sum_of_chunks, blocks_of(rows * cut.heads), kBlockThreads, 0, stream, cut,
              scratch.logits, scratch.partial_head);
  queue_sum_rows(scratch.partial_head, 1, rows, cut.heads, kPartsOfHeads, args.grad_temp, stream);
  if (bias.length > 0) {
    TOST_LAUNCH(causal_bias_gradient, blocks_of(cut.heads * bias.length), kBlockThreads, 0, stream,
                cut, scratch.grad_logit, bias.length, bias.position, args.grad_bias);
  }
  TOST_LAUNCH(term, grid, block, shared, stream, w, cut, args.carry, scratch.grad_logit,
              scratch.partial);
  scan_back(scratch.partial, channels, scratch.logit);
  TOST_LAUNCH(gradient, grid, block, shared, stream, w, grad, cut, sums, args.carry,
              scratch.grad_logit, behind, tokens_out<T>(args.grad_w));
  return last_error();
}

}  // namespace

int64_t forward_workspace(const CausalForwardArgs& args) {
  const CausalCut cut = causal_cut(args.shape, args.dtype, args.w, args.y);
  return CausalForwardScratch(args, cut, nullptr).pieces.used();
}
int64_t backward_workspace(const CausalBackwardArgs& args) {
  const CausalCut cut = causal_cut(args.shape, args.dtype, args.w, args.grad_y, args.grad_w);
  return CausalBackwardScratch(cut, nullptr).pieces.used();
}

int causal_forward(const CausalForwardArgs& args, void* workspace, int64_t shared_bytes,
                   Stream stream) {
  if (args.shape.batch == 0) return 0;
  const CausalCut cut = causal_cut(args.shape, args.dtype, args.w, args.y);
  const bool step_fits = step_shared(args.shape) <= std::max(kGivenShared, shared_bytes);
  if (args.shape.tokens == 1 && args.carry == nullptr && step_fits) {
    switch (args.dtype) {
      case DType::kFloat32:
        return run_step<float>(args, cut, stream);
      case DType::kBfloat16:
        return run_step<Bfloat16>(args, cut, stream);
      case DType::kFloat16:
        return run_step<Float16>(args, cut, stream);
    }
  }
  return for_causal_call(args.dtype, cut, [&]<class T, int V, int K, int kThreads>() {
    return run_causal<T, V, K, kThreads>(args, cut, workspace, stream);
  });
}

int causal_backward(const CausalBackwardArgs& args, void* workspace, Stream stream) {
  const CausalCut cut = causal_cut(args.shape, args.dtype, args.w, args.grad_y, args.grad_w);
  return for_causal_call(args.dtype, cut, [&]<class T, int V, int K, int kThreads>() {
    return run_causal_backward<T, V, K, kThreads>(args, cut, workspace, stream);
  });
}

}  // namespace tost::kernels::cuda
