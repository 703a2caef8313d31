// Runs the CUDA kernels' source on the CPU, so that their logic is tested where there is no GPU:
// the threads of a block are fibers that run in turn from barrier to barrier. Blocks run one after
// the other. Speed is not an aim. A launch that CUDA would refuse runs nothing. A barrier that only
// some threads of a block reach ends the program.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

namespace tost::kernels::cuda::emulator {

// Of the thread that runs.
extern thread_local dim3 thread_index, block_index, block_size, grid_size;
extern thread_local unsigned char* shared;

extern thread_local bool descending;  // the last thread of a block runs first

void barrier();
// Calls body once for every thread of every block, unless the grid or the shared memory is larger
// than an H100 takes.
void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);
// Not 0 where a launch was refused since the last call.
int last_error();

}  // namespace tost::kernels::cuda::emulator

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::tost::kernels::cuda::emulator::thread_index)
#define blockIdx (::tost::kernels::cuda::emulator::block_index)
#define blockDim (::tost::kernels::cuda::emulator::block_size)
#define gridDim (::tost::kernels::cuda::emulator::grid_size)
#define __syncthreads() ::tost::kernels::cuda::emulator::barrier()
#define TOST_UNROLL
#define TOST_SHARED(name) unsigned char* const name = ::tost::kernels::cuda::emulator::shared
#define TOST_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)    \
  (static_cast<void>(stream), ::tost::kernels::cuda::emulator::launch( \
                                  grid, block, shared_bytes, [&] { kernel(__VA_ARGS__); }))
