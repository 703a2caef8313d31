// The state of the optimiser and the averaged weights, divided over the processes (ZeRO-1): each
// updates a part of every bucket of gradients, and gets the parameters that the others updated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tost/comm/gradient_buckets.h"
#include "tost/nn/state_dict.h"
#include "tost/train/adamw.h"

namespace tost {

// Slices are views of the parameters' memory, one-dimensional, named as the parameter. A slice
// begins at a multiple of GradientBuckets::kAligned elements and its end is one or the parameter's
// end, so that the optimiser's kernels give it the bits they give the whole.
class OptimizerShards {
 public:
  // All outlive it. The buckets' parameters are those of `groups`.
  OptimizerShards(Group& group, GradientBuckets& buckets, const std::vector<ParamGroup>& groups);

  // Slices of this process; a group may be empty.
  const std::vector<ParamGroup>& groups() const { return slices_; }
  // Slices and, whole, all else in `state`, which is that of the model.
  StateDict slices_of(const StateDict& state) const;

  // Values of no parameter, such as the statistics of batch norms.
  StateDict rest_of(const StateDict& state) const;

  // Before the optimiser's step on the slices: their gradients are the buckets'.
  void begin_update();
  // After it: every process has all parameters. Gradients are freed.
  void end_update();

  // Files of a checkpoint divide the parameters: shard i is that of process i. The last processes
  // may have none.
  int64_t shards() const { return owners_.empty() ? 0 : owners_.back() + 1; }
  // The index of all shards (safetensors_index.h), of which `first` is the first one.
  std::string index_text(const StateDict& first) const;
  // Collective. AdamW's state of the slices as whole tensors, those of this process's shard.
  StateDict shard_of(const StateDict& moments) const;

  // Collective. Values of slices, by the parameter's name, as whole tensors on process 0 (or on
  // all); other keys of `slices` are left out.
  StateDict whole(const StateDict& slices, bool everywhere) const;

  // Whole tensors as values of this process's slices: AdamW's state, or values by parameter.
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
  std::vector<Slice> own_;
  std::vector<ParamGroup> slices_;
};

}  // namespace tost
