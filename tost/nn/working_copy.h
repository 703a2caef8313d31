// bfloat16 copies of weight matrices for training under autocast, made once a step instead of at
// every use. The float32 weights stay the truth: they alone are parameters, saved and averaged.
#pragma once

#include <memory>
#include <vector>

#include "tost/torch.h"

namespace tost {

class WorkingCopy {
 public:
  // `own_gradient`: gradients of products gather in the copy, as bfloat16; otherwise they reach the
  // weight's as float32.
  WorkingCopy(torch::Tensor weight, bool own_gradient);

  const torch::Tensor& weight() const { return weight_; }
  // Made again if the weight was written since, by in-place operations of torch or note_written().
  const torch::Tensor& values();
  // The copy, for code that writes it along with the weight and then calls note_written().
  torch::Tensor& target() { return values_; }
  void note_written();

 private:
  torch::Tensor weight_, values_;
  uint32_t version_ = 0;
};

// Of every Linear below `module`, and of tables that serve as a matrix: made, or where there are
// some replaced.
std::vector<std::shared_ptr<WorkingCopy>> keep_working_copies(torch::nn::Module& module,
                                                              bool own_gradients);

// Its values, or undefined if there is none or autocast is off.
torch::Tensor working_values(const std::shared_ptr<WorkingCopy>& copy);
// These, or else the weight.
torch::Tensor product_weight(const torch::Tensor& weight, const std::shared_ptr<WorkingCopy>& copy);

}  // namespace tost
