// Exponential moving average of a model's parameters and buffers.
#pragma once

#include <map>
#include <string>

#include "tost/torch.h"

namespace tost {

// After each step: average <- decay * average + (1 - decay) * value, for floating-point parameters
// and buffers (batch-norm statistics included, as the official code's ModelEma does); integer
// buffers are copied.
class Ema {
 public:
  // Starts at the model's present values. 0 < decay < 1.
  Ema(const std::map<std::string, torch::Tensor>& values, double decay);

  // `values` has the names and shapes the average was made with.
  void update(const std::map<std::string, torch::Tensor>& values);

  const std::map<std::string, torch::Tensor>& average() const { return average_; }
  // Throws a data Error when a name or shape differs.
  void load(const std::map<std::string, torch::Tensor>& average);

 private:
  std::map<std::string, torch::Tensor> average_;
  double decay_;
};

}  // namespace tost
