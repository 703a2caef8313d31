// A backend instead of NCCL. It copies from and to GPUs and sends by Gloo. Any number of processes
// may have the same GPU.
#pragma once

#include <exception>
#include <vector>

#include "tost/comm/backends.h"

namespace tost::testing {

// Is complete at the third query, and must not be waited for before.
class LateWork : public c10d::Work {
 public:
  explicit LateWork(std::exception_ptr error) { finish(error); }
  bool isCompleted() override { return ++queries_ > 2; }
  bool wait(std::chrono::milliseconds) override {
    TORCH_CHECK(queries_ > 2, "the queue of the GPU waits for another process");
    return true;
  }

 private:
  int queries_ = 0;
};

class StandInNccl : public c10d::Backend {
 public:
  explicit StandInNccl(const BackendPlace& place)
      : Backend(int(place.rank), int(place.world)), gloo_(open_gloo(place)) {}

  static int64_t& calls() {
    static int64_t count = 0;
    return count;
  }

  WorkPtr allreduce(std::vector<at::Tensor>& x, const c10d::AllreduceOptions& how) override {
    return by_copies(x, [&](auto& here) { return gloo_->allreduce(here, how); });
  }
  WorkPtr broadcast(std::vector<at::Tensor>& x, const c10d::BroadcastOptions& how) override {
    return by_copies(x, [&](auto& here) { return gloo_->broadcast(here, how); });
  }
  WorkPtr _allgather_base(at::Tensor& x, at::Tensor& part,
                          const c10d::AllgatherOptions& how) override {
    return by_copies({x, part},
                     [&](auto& here) { return gloo_->_allgather_base(here[0], here[1], how); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& part, at::Tensor& x,
                               const c10d::ReduceScatterOptions& how) override {
    return by_copies(
        {part, x}, [&](auto& here) { return gloo_->_reduce_scatter_base(here[0], here[1], how); });
  }
  void abort() override {}

 private:
  template <typename Call>
  WorkPtr by_copies(const std::vector<at::Tensor>& x, Call call) {
    ++calls();
    std::exception_ptr error;
    try {
      std::vector<at::Tensor> here;
      for (const at::Tensor& one : x) {
        TORCH_CHECK(one.is_cuda() && one.is_contiguous(), "NCCL takes contiguous tensors on GPUs");
        here.push_back(one.cpu());
      }
      call(here)->wait();
      x[0].copy_(here[0]);
    } catch (...) {
      error = std::current_exception();
    }
    return c10::make_intrusive<LateWork>(error);
  }

  BackendPtr gloo_;
};

inline BackendPtr open_stand_in_nccl(const BackendPlace& place) {
  return c10::make_intrusive<StandInNccl>(place);
}

}  // namespace tost::testing
