// How calls are cut and queued; compiled by nvcc for the GPU and by the host's compiler for the
// emulator.
#include "tost/kernels/cuda/launch.h"
#include "tost/kernels/cuda/tssa_backward.cuh"
#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/kernels/cuda/tssa_forward.cuh"

namespace tost::kernels::cuda {
namespace {

constexpr int kPackBytes = 16;
constexpr unsigned kHeadThreads = 64;  // of a block for the channels of one head

// Channels of a pack: 16 bytes where everything divides into them, else one.
template <class... Arrays>
int pack_of(const TssaShape& shape, DType dtype, const Arrays&... arrays) {
  const int64_t bytes = element_size(dtype), values = kPackBytes / bytes;
  const bool whole = shape.width % values == 0 && (packs(arrays, bytes, values) && ...);
  return whole ? static_cast<int>(values) : 1;
}
int pack_of(const TssaForwardArgs& args) {
  return pack_of(args.shape, args.dtype, args.w, args.y);
}
int pack_of(const TssaBackwardArgs& args) {
  return pack_of(args.shape, args.dtype, args.w, args.grad_y, args.grad_w);
}

template <class Args>
Cut cut_of(const Args& args, int pack, int multiprocessors) {
  const TssaShape& shape = args.shape;
  Cut cut{};
  cut.batch = shape.batch;
  cut.tokens = shape.tokens;
  cut.heads = static_cast<int>(shape.heads);
  cut.width = static_cast<int>(shape.width);
  cut.lanes = static_cast<int>(shape.channels() / pack);
  cut.head_lanes = static_cast<int>(shape.width / pack);
  cut.rows = std::max(1, kBlockThreads / cut.lanes);
  cut.lengths = args.lengths;
  // Four blocks a multiprocessor hide each other's waits; a block shorter than a tile is waste.
  const int64_t tiles = std::max<int64_t>(1, (shape.tokens + cut.tile() - 1) / cut.tile());
  const int64_t blocks = 4 * int64_t{multiprocessors};
  const int64_t wanted = (blocks + shape.batch - 1) / std::max<int64_t>(1, shape.batch);
  const int64_t splits = std::clamp<int64_t>(wanted, 1, std::min<int64_t>(tiles, 1024));
  cut.split_tokens = (tiles + splits - 1) / splits * cut.tile();
  cut.splits = static_cast<int>(
      std::max<int64_t>(1, (shape.tokens + cut.split_tokens - 1) / cut.split_tokens));
  return cut;
}

// Whether a token is few enough packs, and blocks for each head of each sample can be counted: no
// pass has more.
bool fits(const TssaShape& shape, int pack) {
  return shape.channels() / pack <= kMostThreads && shape.batch * shape.heads <= kMostBlocks;
}

int64_t row_bytes(const Cut& cut) {
  return cut.rows * cut.channels() * int64_t{sizeof(float)};
}
// Shared memory of a pass that has so many arrays [tile, lanes] and [tile, H].
int64_t tile_bytes(const Cut& cut, int64_t of_lanes, int64_t of_heads) {
  const int64_t lanes = int64_t{cut.tile()} * cut.lanes * int64_t{sizeof(float)};
  const int64_t heads = int64_t{cut.tile()} * cut.heads * int64_t{sizeof(float)};
  return std::max(lanes, row_bytes(cut)) + (of_lanes - 1) * lanes + of_heads * heads;
}

struct ForwardScratch {
  ForwardScratch(const TssaForwardArgs& args, const Cut& cut, void* base) {
    Pieces pieces(base);
    partial = pieces.take(cut.batch * cut.splits * cut.channels());
    partial_pi = pieces.take(cut.batch * cut.splits * cut.heads);
    pi = pieces.take_unless(args.pi, cut.batch * cut.heads * cut.tokens);
    energy = pieces.take_unless(args.energy, cut.batch * cut.channels());
    moment = pieces.take_unless(args.moment, cut.batch * cut.channels());
    pi_sum = pieces.take_unless(args.pi_sum, cut.batch * cut.heads);
    bytes = pieces.used();
  }
  float *partial, *partial_pi, *pi, *energy, *moment, *pi_sum;
  int64_t bytes;
};

struct BackwardScratch {
  BackwardScratch(const Cut& cut, void* base) {
    Pieces pieces(base);
    partial_temp = pieces.take(cut.batch * cut.splits * cut.heads);
    partial = pieces.take(cut.batch * cut.splits * cut.channels());
    grad_moment = pieces.take(cut.batch * cut.channels());
    logit_sum = pieces.take(cut.batch * cut.channels());
    spread = pieces.take(cut.batch * cut.heads);
    grad_logit = pieces.take(cut.batch * cut.heads * cut.tokens);
    bytes = pieces.used();
  }
  float *partial_temp, *partial, *grad_moment, *logit_sum, *spread, *grad_logit;
  int64_t bytes;
};

template <class T, int V, int kThreads>
int run_forward(const TssaForwardArgs& args, const Cut& cut, void* workspace, Stream stream) {
  const ForwardScratch scratch(args, cut, workspace);
  const auto w = tokens_in<T>(args.w);
  const auto grid = grid_of(cut.batch * cut.splits);
  const auto block = static_cast<unsigned>(cut.threads());
  const int64_t channels = cut.channels();
  const int parts = parts_of(cut.splits, kPartsOfChannels);
  const auto energy = energy_pass<T, V, kThreads>;
  const auto membership = membership_pass<T, V, kThreads>;
  const auto output = output_pass<T, V, kThreads>;
  if (const int error = allow_shared(membership, tile_bytes(cut, 1, 1))) return error;
  if (const int error = allow_shared(energy, row_bytes(cut))) return error;
  TOST_LAUNCH(energy, grid, block, row_bytes(cut), stream, w, cut, scratch.partial);
  queue_sum_rows(scratch.partial, cut.batch, cut.splits, channels, kPartsOfChannels, scratch.energy,
                 stream);
  TOST_LAUNCH(membership, grid, block, tile_bytes(cut, 1, 1), stream, w, cut, scratch.energy,
              args.temp, scratch.pi, scratch.partial, scratch.partial_pi);
  TOST_LAUNCH(combine_moments, column_blocks(cut.batch * channels, parts), kBlockThreads,
              kColumnBytes, stream, scratch.partial, scratch.partial_pi, cut, parts, scratch.moment,
              scratch.pi_sum);
  TOST_LAUNCH(output, grid, block, 0, stream, w, cut, scratch.moment, scratch.pi,
              tokens_out<T>(args.y));
  return last_error();
}

template <class T, int V, int kThreads>
int run_backward(const TssaBackwardArgs& args, const Cut& cut, void* workspace, Stream stream) {
  const BackwardScratch scratch(cut, workspace);
  const auto w = tokens_in<T>(args.w), grad = tokens_in<T>(args.grad_y);
  const Kept kept{args.pi, args.energy, args.moment, args.pi_sum};
  const auto grid = grid_of(cut.batch * cut.splits);
  const auto block = static_cast<unsigned>(cut.threads());
  const int64_t channels = cut.channels();
  const auto alignment = alignment_pass<T, V, kThreads>;
  const auto logit = logit_pass<T, V, kThreads>;
  const auto gradient = gradient_pass<T, V, kThreads>;
  if (const int error = allow_shared(alignment, row_bytes(cut))) return error;
  if (const int error = allow_shared(logit, tile_bytes(cut, 2, 3))) return error;
  TOST_LAUNCH(alignment, grid, block, row_bytes(cut), stream, w, grad, cut, args.pi,
              scratch.partial);
  queue_sum_rows(scratch.partial, cut.batch, cut.splits, channels, kPartsOfChannels,
                 scratch.grad_moment, stream);
  TOST_LAUNCH(moment_gradient, grid_of(cut.batch * cut.heads), kHeadThreads, kColumnBytes, stream,
              cut, kept, scratch.grad_moment, scratch.spread);
  TOST_LAUNCH(logit, grid, block, tile_bytes(cut, 2, 3), stream, w, grad, cut, kept,
              scratch.grad_moment, (LogitInputs{scratch.spread, args.temp, args.grad_pi}),
              (LogitResults{scratch.grad_logit, scratch.partial, scratch.partial_temp}));
  queue_sum_rows(scratch.partial, cut.batch, cut.splits, channels, kPartsOfChannels,
                 scratch.logit_sum, stream);
  TOST_LAUNCH(gradient, grid, block, 0, stream, w, grad, cut, kept, scratch.grad_moment,
              scratch.grad_logit, scratch.logit_sum, tokens_out<T>(args.grad_w));
  queue_sum_rows(scratch.partial_temp, 1, cut.batch * cut.splits, cut.heads, kPartsOfHeads,
                 args.grad_temp, stream);
  return last_error();
}

// run<T, V, threads>() for the storage and pack of a call. Blocks of few threads may use more
// registers each.
template <class T, class Run>
int for_cut(int pack, const Cut& cut, Run run) {
  constexpr int kPack = kPackBytes / sizeof(T);
  if (cut.threads() <= kBlockThreads) {
    return pack == 1 ? run.template operator()<T, 1, kBlockThreads>()
                     : run.template operator()<T, kPack, kBlockThreads>();
  }
  return pack == 1 ? run.template operator()<T, 1, kMostThreads>()
                   : run.template operator()<T, kPack, kMostThreads>();
}
template <class Run>
int for_call(DType dtype, int pack, const Cut& cut, Run run) {
  switch (dtype) {
    case DType::kFloat32:
      return for_cut<float>(pack, cut, run);
    case DType::kBfloat16:
      return for_cut<Bfloat16>(pack, cut, run);
    case DType::kFloat16:
      return for_cut<Float16>(pack, cut, run);
  }
  return 1;
}

}  // namespace

bool supports(const TssaForwardArgs& args) {
  return fits(args.shape, pack_of(args));
}
bool supports(const TssaBackwardArgs& args) {
  return fits(args.shape, pack_of(args));
}

int64_t forward_workspace(const TssaForwardArgs& args, int multiprocessors) {
  return ForwardScratch(args, cut_of(args, pack_of(args), multiprocessors), nullptr).bytes;
}
int64_t backward_workspace(const TssaBackwardArgs& args, int multiprocessors) {
  return BackwardScratch(cut_of(args, pack_of(args), multiprocessors), nullptr).bytes;
}

int tssa_forward(const TssaForwardArgs& args, void* workspace, int multiprocessors, Stream stream) {
  if (args.shape.batch == 0) return 0;
  const int pack = pack_of(args);
  const Cut cut = cut_of(args, pack, multiprocessors);
  return for_call(args.dtype, pack, cut, [&]<class T, int V, int kThreads>() {
    return run_forward<T, V, kThreads>(args, cut, workspace, stream);
  });
}

int tssa_backward(const TssaBackwardArgs& args, void* workspace, int multiprocessors,
                  Stream stream) {
  const int pack = pack_of(args);
  const Cut cut = cut_of(args, pack, multiprocessors);
  return for_call(args.dtype, pack, cut, [&]<class T, int V, int kThreads>() {
    return run_backward<T, V, kThreads>(args, cut, workspace, stream);
  });
}

}  // namespace tost::kernels::cuda
