// How causal calls are cut into blocks and threads, and the kernels of a cut.
#pragma once

#include "tost/kernels/cuda/causal_tiles.cuh"
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

}  // namespace
}  // namespace tost::kernels::cuda
