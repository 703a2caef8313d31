// One mixer with its projections, as the scaling measurements call it.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "tost/bench/scaling_bench.h"

namespace tost {

class ScalingLayer {
 public:
  // Weights as at the start of training, drawn from torch's default generator.
  ScalingLayer(const std::string& mixer, const ScalingOptions& options);

  const std::string& mixer() const { return mixer_; }
  torch::Tensor forward(const torch::Tensor& x) const;
  // Gradients of x and of every weight, thrown away.
  void train(const torch::Tensor& x, const torch::Tensor& grad) const;
  // Of tssa, else undefined: tokens after the projection, and temp.
  torch::Tensor project(const torch::Tensor& x) const;
  torch::Tensor temp() const;

  // Throws a data Error unless forward() gives what the same layer computes in float64, tssa as its
  // written-out form.
  void check_result() const;

 private:
  torch::Tensor call(torch::nn::Module& module, const torch::Tensor& x) const;
  std::shared_ptr<torch::nn::Module> make(torch::ScalarType dtype) const;
  torch::Tensor reference(const torch::Tensor& x) const;  // float64

  std::string mixer_;
  bool causal_;
  int64_t dim_, heads_;
  std::shared_ptr<torch::nn::Module> module_;
};

torch::ScalarType scaling_dtype(const ScalingOptions& options);

}  // namespace tost
