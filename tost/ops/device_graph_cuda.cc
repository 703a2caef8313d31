// DeviceGraph on CUDA, by torch's own wrapper: its allocator and generators know of the capture.
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>

#include "tost/ops/device_graph.h"

namespace tost {
namespace {

using c10::cuda::CUDAStream;

// One a device: libraries keep a workspace for every stream they have seen.
CUDAStream side_stream(c10::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, CUDAStream> streams;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  return streams
      .emplace(device.index(),
               c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()))
      .first->second;
}

// What is queued on `later` from now on waits for what is queued on `earlier`.
void order(const CUDAStream& earlier, const CUDAStream& later) {
  c10::Event event(c10::kCUDA);
  event.record(earlier.unwrap());
  event.block(later.unwrap());
}

// Where torch keeps one capture a generator, a failed one leaves it in that state, and every later
// draw is refused; a copy of it is in none.
template <class State>
void end_capture_of_generator(c10::DeviceIndex device) {
  if constexpr (requires(State & state) { state.capturing_; }) {
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
    generator.graphsafe_set_state(generator.clone());
  }
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(c10::Device device, at::cuda::MempoolId_t pool)
      : device_(device), pool_(pool), side_(side_stream(device)) {}

  void warm_up(function_ref<void()> work) override {
    const CUDAStream own = c10::cuda::getCurrentCUDAStream(device_.index());
    order(own, side_);
    {
      const c10::cuda::CUDAStreamGuard guard(side_);
      work();
    }
    order(side_, own);
  }

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    graph_.replay();
  }

  std::unique_ptr<DeviceGraph> beside() const override {
    return std::make_unique<CudaGraph>(device_, pool_);
  }

 private:
  void record(function_ref<void()> work) override {
    const c10::cuda::CUDAStreamGuard guard(side_);
    c10::cuda::device_synchronize();
    // While it captures the allocator gives nothing back, and what the calls before took lies idle.
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads load batches and write checkpoints meanwhile; their calls are none of this.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    graph_.capture_end();
  }

  // Leaves the stream and the allocator as they were; the error to be told is the first one.
  void abandon() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      static_cast<void>(cudaGetLastError());
      end_capture_of_generator<at::CUDAGeneratorState>(side_.device_index());
    }
  }

  const c10::Device device_;
  const at::cuda::MempoolId_t pool_;
  const CUDAStream side_;
  at::cuda::CUDAGraph graph_;
};

const GraphMakerSetter of_cuda([](c10::Device device) -> std::unique_ptr<DeviceGraph> {
  return std::make_unique<CudaGraph>(device, at::cuda::graph_pool_handle());
});

}  // namespace
}  // namespace tost
