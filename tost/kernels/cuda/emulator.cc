#include "tost/kernels/cuda/emulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tost::kernels::cuda::emulator {

thread_local dim3 thread_index, block_index, block_size, grid_size;
thread_local unsigned char* shared = nullptr;
thread_local bool descending = false;

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostBlocks = INT32_MAX;
constexpr size_t kMostShared = 227 << 10;
constexpr int kInvalidConfiguration = 9;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool done = false;
};

// What the fibers of a launch share. One launch at a time in a thread.
struct Launch {
  const std::function<void()>* body = nullptr;
  ucontext_t scheduler;
  Fiber* running = nullptr;
};
thread_local Launch current;
thread_local int error = 0;

void fiber_main() {
  (*current.body)();
  current.running->done = true;
  swapcontext(&current.running->context, &current.scheduler);
}

// Lets each fiber run to its next barrier or its end; false when all have ended.
bool run_round(std::vector<Fiber>& fibers) {
  size_t ended = 0;
  for (size_t turn = 0; turn < fibers.size(); ++turn) {
    const size_t i = descending ? fibers.size() - 1 - turn : turn;
    if (!fibers[i].done) {
      thread_index = dim3(static_cast<unsigned>(i));
      current.running = &fibers[i];
      swapcontext(&current.scheduler, &fibers[i].context);
    }
    ended += fibers[i].done ? 1 : 0;
  }
  if (ended != 0 && ended != fibers.size()) {
    std::fprintf(stderr, "%zu of %zu threads of a block did not reach a barrier.\n", ended,
                 fibers.size());
    std::abort();
  }
  return ended == 0;
}

void run_block(std::vector<Fiber>& fibers) {
  for (auto& fiber : fibers) {
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
  }
  while (run_round(fibers)) {
  }
}

}  // namespace

void barrier() {
  swapcontext(&current.running->context, &current.scheduler);
}

void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body) {
  if (grid.x > kMostBlocks || shared_bytes > kMostShared) {
    error = kInvalidConfiguration;
    return;
  }
  std::vector<Fiber> fibers(block.x);
  const auto memory = std::make_unique<std::max_align_t[]>(shared_bytes / 16 + 1);
  current.body = &body;
  shared = reinterpret_cast<unsigned char*>(memory.get());
  block_size = block;
  grid_size = grid;
  for (unsigned x = 0; x < grid.x; ++x) {
    block_index = dim3(x);
    std::memset(shared, 0xff, shared_bytes);
    run_block(fibers);
  }
}

int last_error() {
  return std::exchange(error, 0);
}

}  // namespace tost::kernels::cuda::emulator
