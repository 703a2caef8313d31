// The processes that train one run together, over c10d, whose headers are not included here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/torch.h"

namespace tost {

// The address at which a process finds the others.
struct GroupPlace {
  int64_t rank = 0, world = 1;
  std::string address = "127.0.0.1";  // of the store
  int64_t port = 29500;
  bool serves_store = true;  // rank 0 serves the store; else someone else does (torchrun's agent)
  std::string attempt = "";  // separates the keys of one start of the run from those of another
  std::string file;          // instead of address and port: a store in this file
  bool one_machine = false;  // all ranks are here: they meet on the loopback device
  int64_t local_rank = 0;    // among the processes of this machine
};

// The place from torchrun's environment variables; nothing where torchrun did not start this
// process. Throws a usage Error for variables that contradict each other.
std::optional<GroupPlace> place_from_environment();

// A name of torchrun's launch. Its first attempt draws the name and stores it in the agent's store
// for later attempts; empty without such a store.
std::string launch_from_environment();

constexpr double kDefaultPeerTimeout = 600;  // seconds

// Whether this program can send tensors from GPU to GPU.
bool built_with_nccl();

// Every call below is made by all processes in the same order, one at a time. If a process fails or
// misses the timeout, the others throw a data Error that names it. Tensors are dense and
// contiguous, of one call all on the CPU or all on a GPU. Those on a GPU go over Gloo as copies in
// the host's memory, and after connect_gpus() over NCCL.
class Group {
 public:
  // Waits for the others, at most `timeout` seconds.
  Group(const GroupPlace& place, double timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t rank() const;
  int64_t world() const;
  int64_t local_rank() const;
  bool first() const { return rank() == 0; }
  void set_timeout(double seconds);
  // Connects the GPUs of the processes over NCCL, which the program must have; after set_timeout().
  // This one has `gpu`, which no other process uses.
  void connect_gpus(torch::Device gpu);

  // The sum over the processes, in place. It has the same bits on every process, and on the CPU
  // also in every run with as many processes.
  void sum(const torch::Tensor& x);
  // Begins such a sum; `x` is ready when the function that is returned has been called.
  std::function<void()> begin_sum(const torch::Tensor& x);
  // x of process 0, in place.
  void broadcast(const torch::Tensor& x);
  // [world, ...]: x of every process.
  torch::Tensor gather(const torch::Tensor& x);
  // Part `rank` of the sum of x [world * n], on the CPU as sum() has it bit for bit; `part` is [n].
  std::function<void()> begin_scatter_sum(const torch::Tensor& part, const torch::Tensor& x);
  // The parts [n] of all processes, one after the other, into x [world * n].
  void gather_parts(const torch::Tensor& x, const torch::Tensor& part);

  std::string broadcast_text(const std::string& text);
  std::vector<std::string> gather_texts(const std::string& text);

  // Whether any process passes true.
  bool any(bool flag);
  // `work`, on every process. Where it throws on one or more, it throws on all: on process 0 the
  // Error of the lowest rank, on others ReportedElsewhere.
  void together(const std::function<void()>& work);
  // Runs `work` on process 0 only and returns its result on all; its Error as in together().
  std::string by_first(const std::function<std::string()>& work);

  // Whether a process was lost; all further calls then fail.
  bool broken() const;

  // Reports to the others why this process leaves, before it does; false where they know already.
  // Never throws.
  bool leave(const Error& reason);

  // A new group of the processes of the same `color`, in the same order of ranks. Its sums may
  // overlap with those of this group.
  std::unique_ptr<Group> split(const std::string& name, int64_t color);

  double waited() const;  // seconds in calls that wait, since the start
  int64_t sent() const;   // bytes of the tensors of all calls so far

 private:
  struct Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Without a group (null: one process) these cost nothing.
inline bool is_first(const Group* group) {
  return group == nullptr || group->first();
}
inline int64_t world_of(const Group* group) {
  return group == nullptr ? 1 : group->world();
}
inline int64_t rank_of(const Group* group) {
  return group == nullptr ? 0 : group->rank();
}

}  // namespace tost
