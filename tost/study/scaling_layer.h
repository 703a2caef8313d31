// One mixer with its projections, or a network around it, as the scaling measurements call it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tost/kinds/sequence/config.h"
#include "tost/study/scaling_bench.h"
#include "tost/torch.h"

namespace tost {

class ScalingLayer {
 public:
  // Weights as at the start of training, drawn from torch's default generator.
  ScalingLayer(const std::string& mixer, const ScalingOptions& options);

  const std::string& mixer() const { return mixer_; }
  // Draws random tokens [batch, tokens, dim], for a network ids [batch, tokens].
  torch::Tensor draw_input(int64_t batch, int64_t tokens) const;
  torch::Tensor forward(const torch::Tensor& x) const;
  // Computes and discards gradients of every weight and of x (not of ids).
  void train(const torch::Tensor& x) const;
  // Whether this is a layer of TSSA; only then the functions project() and temp() may be called.
  bool has_membership() const { return mixer_ == "tssa" && !network_; }
  torch::Tensor project(const torch::Tensor& x) const;
  torch::Tensor temp() const;

  // Throws a data Error unless forward() agrees with the layer in float64 (of TSSA, its plain
  // form).
  void check_result() const;

 private:
  torch::Tensor call(torch::nn::Module& module, const torch::Tensor& x) const;
  std::shared_ptr<torch::nn::Module> make(torch::ScalarType dtype) const;
  torch::Tensor reference(const torch::Tensor& x) const;  // float64

  std::string mixer_;
  bool causal_;
  int64_t dim_, heads_;
  std::optional<SequenceConfig> network_;
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace tost
