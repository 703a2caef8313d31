// Divides the state of the optimiser and the averaged weights over the processes (ZeRO-1): each
// process updates a part of every bucket, and receives the other parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tost/comm/gradient_buckets.h"
#include "tost/nn/state_dict.h"
#include "tost/train/adamw.h"

namespace tost {

// A slice is a one-dimensional view of a parameter's memory, with the parameter's name. Slices
// begin at multiples of GradientBuckets::kAligned elements, so that the optimiser's kernels give
// the same bits as for the whole parameter.
class OptimizerShards {
 public:
  // The arguments must outlive this object. The buckets must hold the parameters of `groups`.
  OptimizerShards(Group& group, GradientBuckets& buckets, const std::vector<ParamGroup>& groups);

  // The slices of this process, by group; a group may be empty.
  const std::vector<ParamGroup>& groups() const { return slices_; }
  // The slices of the parameters in the model's `state`, and its other tensors unchanged.
  StateDict slices_of(const StateDict& state) const;

  // The tensors of `state` that are no parameters, such as statistics of batch norms.
  StateDict rest_of(const StateDict& state) const;

  // Sets the gradients of the slices from the buckets, before the optimiser's step.
  void begin_update();
  // Exchanges the updated parameters between all processes, after the step, and frees gradients.
  void end_update();

  // The number of shards of a checkpoint: process i writes shard i, and the last processes may
  // write none.
  int64_t shards() const { return owners_.empty() ? 0 : owners_.back() + 1; }
  // Returns the index of all shards (safetensors_index.h); `first` is the first shard.
  std::string index_text(const StateDict& first) const;
  // Collective. Gathers AdamW's state of all slices, and returns the whole tensors of this
  // process's shard.
  StateDict shard_of(const StateDict& moments) const;

  // Collective. Gathers values of slices as whole tensors, by the parameters' names, on process 0
  // (or on all); ignores other keys.
  StateDict whole(const StateDict& slices, bool everywhere) const;

  // Cuts whole tensors, AdamW's state or values by parameter, to the slices of this process.
  StateDict my_moments(const StateDict& whole) const;
  StateDict local_part(const std::string& prefix, const StateDict& whole) const;

 private:
  struct Slice {
    size_t parameter, bucket;
    int64_t in_parameter, in_part, count;
    torch::Tensor values;
  };
  using Wanted = std::function<bool(size_t parameter)>;
  StateDict gathered(const std::string& prefix, const StateDict& slices,
                     const Wanted& wanted) const;
  void choose_owners();
  void add_slice(size_t bucket, const GradientBuckets::Slot& slot);
  const torch::Tensor& parameter(size_t index) const { return buckets_.parameters()[index]; }

  Group& group_;
  GradientBuckets& buckets_;
  std::vector<std::string> names_;  // by parameter of the buckets
  std::vector<int64_t> owners_;     // of shards, in the order of the parameters
  std::vector<Slice> local_slices_;
  std::vector<ParamGroup> slices_;
};

}  // namespace tost
