// Exponential moving average of a model's parameters and buffers.
#pragma once

#include <map>
#include <string>

#include "tost/torch.h"

namespace tost {

// Computes average <- decay * average + (1 - decay) * value after each step, for floating-point
// parameters and buffers, as ModelEma of the official code does; copies integer buffers.
class Ema {
 public:
  // Starts the average at `values`; `decay` must be between 0 and 1.
  Ema(const std::map<std::string, torch::Tensor>& values, double decay);

  // Updates the average by values with the same names and shapes.
  void update(const std::map<std::string, torch::Tensor>& values);

  const std::map<std::string, torch::Tensor>& average() const { return average_; }
  // Replaces the average. Replaces the average; throws a data Error if a name or shape differs.
  void load(const std::map<std::string, torch::Tensor>& average);

 private:
  std::map<std::string, torch::Tensor> average_;
  double decay_;
};

}  // namespace tost
