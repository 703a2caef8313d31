// bfloat16 copies of weight matrices for training under autocast, made once a step instead of at
// every use. Only the float32 weights are parameters, saved and averaged.
#pragma once

#include <memory>
#include <vector>

#include "tost/torch.h"

namespace tost {

class WorkingCopy {
 public:
  // `separate_gradient`: gradients of products accumulate in the copy, as bfloat16, and
  // take_gradient() returns them. Otherwise they accumulate in the weight, as float32.
  WorkingCopy(torch::Tensor weight, bool separate_gradient);

  const torch::Tensor& weight() const { return weight_; }
  // Renewed if the weight was written since, by in-place operations of torch or note_written().
  const torch::Tensor& values();
  // The copy, for code that writes it along with the weight and then calls note_written().
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

// Its values, or undefined if there is none or autocast is off.
torch::Tensor working_values(const std::shared_ptr<WorkingCopy>& copy);
// These, or else the weight.
torch::Tensor product_weight(const torch::Tensor& weight, const std::shared_ptr<WorkingCopy>& copy);

}  // namespace tost
