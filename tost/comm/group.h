// The processes that train one run together, connected by c10d.
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

// The address at which processes find each other.
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

// Reads the address from torchrun's environment variables; returns nothing if torchrun did not
// start this process. Throws a usage Error for variables that contradict each other.
std::optional<GroupPlace> place_from_environment();

// The random name of torchrun's launch, which the first attempt puts into the agent's store for
// later attempts; empty if there is no store.
std::string launch_from_environment();

constexpr double kDefaultPeerTimeout = 600;  // seconds

// Whether this program can send tensors from GPU to GPU.
bool built_with_nccl();

// All processes must make the calls below in the same order, one at a time. If a process fails or
// misses the timeout, the others throw a data Error that names its rank. Tensors are dense and
// contiguous; the tensors of one call are all on the CPU or all on a GPU. After connect_gpus(),
// NCCL transfers tensors on a GPU; before, Gloo transfers copies in main memory.
class Group {
 public:
  // Waits until all processes are connected, at most `timeout` seconds.
  Group(const GroupPlace& place, double timeout);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t rank() const;
  int64_t world() const;
  int64_t local_rank() const;
  bool first() const { return rank() == 0; }
  void set_timeout(double seconds);
  // Connects the GPUs of the processes over NCCL, after set_timeout(); requires a build with NCCL.
  void connect_gpus(torch::Device gpu);

  // Replaces x by its sum over the processes, with the same bits on each process. On the CPU, all
  // runs with the same number of processes give the same bits.
  void sum(const torch::Tensor& x);
  // Begins such a sum. Calling the returned function waits until `x` is ready.
  std::function<void()> begin_sum(const torch::Tensor& x);
  // Replaces x by the x of process 0.
  void broadcast(const torch::Tensor& x);
  // Returns the x of all processes, stacked as [world, ...].
  torch::Tensor gather(const torch::Tensor& x);
  // Begins to write part `rank` of the sum of x [world * n] to `part` [n]; on CPUs the bits are
  // those of sum().
  std::function<void()> begin_scatter_sum(const torch::Tensor& part, const torch::Tensor& x);
  // Concatenates the parts [n] of all processes in x [world * n].
  void gather_parts(const torch::Tensor& x, const torch::Tensor& part);

  std::string broadcast_text(const std::string& text);
  std::vector<std::string> gather_texts(const std::string& text);

  // Returns true on all processes if any process passes true.
  bool any(bool flag);
  // Runs `work` on every process. If `work` throws on any process, process 0 throws the Error of
  // the lowest rank that failed, and all others throw ReportedElsewhere.
  void together(const std::function<void()>& work);
  // Runs `work` on process 0, and returns its result on all; reports Errors as together() does.
  std::string by_first(const std::function<std::string()>& work);

  // Whether a process was lost, after which all calls fail.
  bool broken() const;

  // Reports to the others why this process is about to leave; returns false after an earlier
  // report. Never throws.
  bool leave(const Error& reason);

  // Makes a new group of the processes with the same `color`, in the same order of ranks. Sums of
  // the new group may overlap with those of this group.
  std::unique_ptr<Group> split(const std::string& name, int64_t color);

  double waited() const;  // seconds in calls that wait, since the start
  int64_t sent() const;   // bytes of the tensors of all calls so far

 private:
  struct Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The functions below do nothing for a null group, which means one process.
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
