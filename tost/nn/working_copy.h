// bfloat16 copies of weight matrices for training under autocast, which are made once a step and
// not at every use. Only the float32 weights are parameters, which are saved and averaged.
#pragma once

#include <memory>
#include <vector>

#include "tost/torch.h"

namespace tost {

class WorkingCopy {
 public:
  // With `separate_gradient`, target().grad() sums the gradients of products in bfloat16; else the
  // weight's gradient sums them in float32.
  WorkingCopy(torch::Tensor weight, bool separate_gradient);

  const torch::Tensor& weight() const { return weight_; }
  // The values of the copy, rounded again if an in-place operation or note_written() has changed
  // the weight.
  const torch::Tensor& values();
  // The copy, for code that writes copy and weight together and then calls note_written().
  torch::Tensor& target() { return values_; }
  void note_written();

 private:
  torch::Tensor weight_, values_;
  uint32_t version_ = 0;
};

// Makes or replaces the copies of every Linear in `module`, and of tables used as a matrix.
std::vector<std::shared_ptr<WorkingCopy>> keep_working_copies(torch::nn::Module& module,
                                                              bool separate_gradients);

// The values of the copy; the weight if `copy` is null or autocast to bfloat16 is off.
torch::Tensor product_weight(const torch::Tensor& weight, const std::shared_ptr<WorkingCopy>& copy);

}  // namespace tost
