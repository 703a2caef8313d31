// bfloat16 copies of weight matrices for training under autocast, made once a step instead of at
// every use. Only the float32 weights are parameters, saved and averaged.
#pragma once

#include <memory>
#include <vector>

#include "tost/torch.h"

namespace tost {

class WorkingCopy {
 public:
  // With `separate_gradient` gradients of products are added up in target().grad() as bfloat16,
  // else in the weight's gradient as float32.
  WorkingCopy(torch::Tensor weight, bool separate_gradient);

  const torch::Tensor& weight() const { return weight_; }
  // The values, renewed if the weight was changed, by torch's in-place operations or
  // note_written().
  const torch::Tensor& values();
  // The copy, for code that writes it together with the weight and then calls note_written().
  torch::Tensor& target() { return values_; }
  void note_written();

 private:
  torch::Tensor weight_, values_;
  uint32_t version_ = 0;
};

// Makes or replaces the copies of every Linear below `module`, and of tables that are used as a
// matrix.
std::vector<std::shared_ptr<WorkingCopy>> keep_working_copies(torch::nn::Module& module,
                                                              bool separate_gradients);

// The values of the copy, or the weight if there is none or autocast to bfloat16 is off.
torch::Tensor product_weight(const torch::Tensor& weight, const std::shared_ptr<WorkingCopy>& copy);

}  // namespace tost
