// The state of the optimiser and the averaged weights, divided over the processes (ZeRO-1): each
// updates a part of every bucket of gradients, and gets the parameters that the others updated.
#pragma once

#include <string>
#include <vector>

#include "tost/comm/gradient_buckets.h"
#include "tost/nn/state_dict.h"
#include "tost/train/param_groups.h"

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

  // What belongs to no parameter, such as the statistics of batch norms.
  StateDict rest_of(const StateDict& state) const;

  // Before the optimiser's step on the slices: their gradients are the buckets'.
  void begin_update();
  // After it: every process has all parameters. Gradients are gone.
  void end_update();

  // Collective. Values of slices, under `prefix` and the parameter's name, as whole tensors on
  // process 0 (or on all); other keys of `slices` are left out.
  StateDict whole(const std::string& prefix, const StateDict& slices, bool everywhere) const;
  // Collective. What process 0 has of whole tensors, as values of this process's slices.
  StateDict mine(const std::string& prefix, const StateDict& whole) const;
  // The same of numbers that belong to a whole parameter, such as its count of steps.
  StateDict whole_numbers(const std::string& prefix, const StateDict& slices) const;
  StateDict my_numbers(const std::string& prefix, const StateDict& whole) const;

  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Slice {
    size_t parameter, bucket;
    int64_t in_parameter, in_part, count;
    torch::Tensor values;
  };
  void add_slice(size_t bucket, const GradientBuckets::Slot& slot);
  const torch::Tensor& parameter(size_t index) const { return buckets_.parameters()[index]; }

  Group& group_;
  GradientBuckets& buckets_;
  std::vector<std::string> names_;  // by parameter of the buckets
  std::vector<Slice> own_;
  std::vector<ParamGroup> slices_;
};

}  // namespace tost
