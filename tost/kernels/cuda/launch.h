// What calls to the GPU's kernels share on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tost/kernels/cuda/tssa_tiles.cuh"
#include "tost/kernels/schedule.h"

namespace tost::kernels::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kBlockThreads = 256;                   // aimed at
constexpr int64_t kMostBlocks = INT32_MAX;           // of a launch
constexpr int64_t kGivenShared = int64_t{48} << 10;  // shared memory of a block, not opted into

// Whether packs of so many values can be read at once.
inline bool packs(const ConstTokens& t, int64_t bytes, int64_t values) {
  return reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(values * bytes) == 0 &&
         t.batch_stride % values == 0 && t.token_stride % values == 0;
}
inline bool packs(const Tokens& t, int64_t bytes, int64_t values) {
  return packs(ConstTokens{t.data, t.batch_stride, t.token_stride}, bytes, values);
}

// Hands out 256-byte aligned pieces; with a null base it only counts.
class Pieces {
 public:
  explicit Pieces(void* base) : base_(static_cast<char*>(base)) {}

  float* take(int64_t count) {
    float* piece = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + used_);
    used_ += (count * int64_t{sizeof(float)} + 255) / 256 * 256;
    return piece;
  }
  float* take_unless(float* given, int64_t count) { return given != nullptr ? given : take(count); }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

// So many blocks as a launch takes them. What `unsigned` does not hold stays at its end, which
// last_error() then reports as every number above kMostBlocks.
unsigned grid_of(int64_t blocks) {
  return static_cast<unsigned>(std::min<int64_t>(blocks, UINT32_MAX));
}
unsigned blocks_of(int64_t threads) {
  return grid_of((threads + kBlockThreads - 1) / kBlockThreads);
}

// How many threads add up a column of so many numbers (column_sums.cuh): four numbers each or more,
// and at most so many threads, since adjacent columns are read together.
int parts_of(int64_t numbers, int most) {
  int parts = 1;
  while (parts < most && 8 * int64_t{parts} <= numbers) parts *= 2;
  return parts;
}
constexpr int kPartsOfChannels = 32, kPartsOfHeads = kBlockThreads;
unsigned column_blocks(int64_t columns, int parts) {
  return blocks_of(columns * parts);
}
constexpr int64_t kColumnBytes = kBlockThreads * int64_t{sizeof(double)};

// sum_rows() over so many columns in all.
template <class Out>
void queue_sum_rows(const float* partial, int64_t batch, int64_t rows, int64_t width, int most,
                    Out* out, void* stream) {
  const int parts = parts_of(rows, most);
  TOST_LAUNCH(sum_rows<Out>, column_blocks(batch * width, parts), kBlockThreads, kColumnBytes,
              stream, partial, batch, rows, width, parts, out);
}
template <class T>
TokensIn<T> tokens_in(const ConstTokens& t) {
  return {static_cast<const T*>(t.data), t.batch_stride, t.token_stride};
}
template <class T>
TokensOut<T> tokens_out(const Tokens& t) {
  return {static_cast<T*>(t.data), t.batch_stride, t.token_stride};
}

#if defined(__CUDACC__)
// More than 48 KiB of shared memory has to be asked for, on every device. All there is: a smaller
// number would undo what another thread asked for its launch.
template <class Kernel>
int allow_shared(Kernel kernel, int64_t bytes) {
  if (bytes <= kGivenShared) return 0;
  int device = 0, all = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, all);
  }
  return static_cast<int>(error);
}
int last_error() {
  return static_cast<int>(cudaGetLastError());
}
#else
template <class Kernel>
int allow_shared(Kernel, int64_t) {
  return 0;
}
int last_error() {
  return emulator::last_error();
}
#endif

}  // namespace
}  // namespace tost::kernels::cuda
