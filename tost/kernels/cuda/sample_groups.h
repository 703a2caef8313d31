// Batches that the L2 cache does not hold go through the passes in groups that it does,
// where that pays: the first pass reads a group from memory, the later ones from the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/kernels/schedule.h"

namespace tost::kernels::cuda {
namespace {

// How many of `batch` samples that read so many bytes each make a group; the groups are about
// equal. Half the cache is left to what is written, and to addresses that meet there.
int64_t group_of(int64_t batch, int64_t sample_bytes, const DeviceFacts& device) {
  if (device.cache_bytes <= 0 || batch * sample_bytes <= device.cache_bytes / 4 * 3) return batch;
  const int64_t most = std::max<int64_t>(1, device.cache_bytes / 2 / sample_bytes);
  const int64_t groups = (batch + most - 1) / most;
  return (batch + groups - 1) / groups;
}

template <class T>
void move(T*& data, int64_t by) {
  if (data != nullptr) data += by;
}
template <class Array>
void move_samples(Array& tokens, int64_t first, DType dtype) {
  using Byte = std::conditional_t<std::is_same_v<Array, Tokens>, char, const char>;
  tokens.data = static_cast<Byte*>(tokens.data) + first * tokens.batch_stride * element_size(dtype);
}

// The call for `count` samples from `first` on.
template <class Args>
Args shared_samples_of(Args args, int64_t first, int64_t count) {
  const int64_t stats = first * args.shape.channels(), heads = first * args.shape.heads;
  move_samples(args.w, first, args.dtype);
  move(args.lengths, first);
  move(args.pi, heads * args.shape.tokens);
  move(args.energy, stats);
  move(args.moment, stats);
  move(args.pi_sum, heads);
  args.shape.batch = count;
  return args;
}
TssaForwardArgs samples_of(const TssaForwardArgs& all, int64_t first, int64_t count) {
  TssaForwardArgs args = shared_samples_of(all, first, count);
  move_samples(args.y, first, args.dtype);
  return args;
}
TssaBackwardArgs samples_of(const TssaBackwardArgs& all, int64_t first, int64_t count) {
  TssaBackwardArgs args = shared_samples_of(all, first, count);
  move_samples(args.grad_y, first, args.dtype);
  move_samples(args.grad_w, first, args.dtype);
  move(args.grad_pi, first * args.shape.heads * args.shape.tokens);
  return args;
}

// run(group) for all samples of a call, so many at a time. Returns the first error.
template <class Args, class Run>
int in_groups(const Args& args, int64_t group, Run run) {
  for (int64_t first = 0; first < args.shape.batch; first += group) {
    const int64_t count = std::min(group, args.shape.batch - first);
    if (const int error = run(samples_of(args, first, count), first)) return error;
  }
  return 0;
}

}  // namespace
}  // namespace tost::kernels::cuda
