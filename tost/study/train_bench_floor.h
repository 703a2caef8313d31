// Every matrix product of a training step and nothing else, on operands of its shapes and type.
#pragma once

#include <map>
#include <vector>

#include "tost/bench/train_bench_model.h"
#include "tost/torch.h"

namespace tost {

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
