// What `tost bench train` takes steps of: a model on fixed random data, its plain form, and its
// matrix products.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tost/nn/decay_groups.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// Rows times a matrix [in, out], or a convolution where `kernel` is above 0: rows are then pixels
// of the output.
struct StepProduct {
  int64_t rows = 0, in = 0, out = 0;
  int64_t kernel = 0, stride = 1, batch = 1, side = 0;  // of the output, square
  bool input_gradient = true;

  // Multiplications and additions of a step: forward, and both of backward.
  double flop() const;
};

class TrainBenchModel {
 public:
  virtual ~TrainBenchModel() = default;

  virtual torch::nn::Module& module() = 0;
  virtual DecayGroups decay_groups() const = 0;
  virtual int64_t samples() const = 0;  // tokens or images a step
  // Weights and data.
  virtual void move_to(torch::Device device) = 0;
  virtual std::vector<StepProduct> products() const = 0;

  virtual torch::Tensor loss() = 0;
  // Of the official formula as ATen has it: the mixer's plain definition, every layer on its own,
  // torch's cross-entropy over whole logits. On the weights of module().
  virtual torch::Tensor plain_loss() = 0;
  // Throws a data Error if the two differ.
  virtual void check(Precision precision) = 0;
};

// Every matrix product of a training step and nothing else, on operands of its shapes and type.

class StepFloor {
 public:
  StepFloor(const std::vector<StepProduct>& products, torch::Dtype type,
            torch::Device device = torch::kCPU);

  void run() const;
  double gflop() const { return gflop_; }

 private:
  void run_matrices() const;
  void run_convolutions() const;

  struct Map {
    torch::Tensor x, w, y;  // [rows, in], [out, in], [rows, out]
    torch::Tensor grad_x, grad_w;
  };
  struct Convolution {
    StepProduct product;
    torch::Tensor x, w, y;
  };
  torch::Tensor shared(int64_t rows, int64_t width);

  torch::TensorOptions options_;
  double gflop_ = 0;
  std::map<std::pair<int64_t, int64_t>, torch::Tensor> rows_;
  std::vector<Map> maps_;
  std::vector<Convolution> convolutions_;
};

}  // namespace tost
