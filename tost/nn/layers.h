// Linear maps and norms, and bfloat16 copies of weight matrices for training under autocast. Copies
// are made once a step and not at every use. Only the float32 weights are parameters, which are
// saved and averaged.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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

// A linear map as a module. Weight [out, in] and bias [out] are uninitialised until init_linears()
// or a checkpoint sets them.
class Linear : public torch::nn::Module {
 public:
  Linear(int64_t in, int64_t out, bool with_bias);

  torch::Tensor forward(const torch::Tensor& x) const {
    return torch::linear(x, product_weight(), bias);
  }
  // Computes only output features [first, first + count), without copying the weight.
  torch::Tensor forward_rows(const torch::Tensor& x, int64_t first, int64_t count) const;

  // The weight that products read: under autocast the working copy, if there is one.
  torch::Tensor product_weight() const { return tost::product_weight(weight, copy); }

  torch::Tensor weight;               // [out, in]
  torch::Tensor bias;                 // [out], undefined without bias
  std::shared_ptr<WorkingCopy> copy;  // null: there is none
};

// A table of vectors [rows, dim], uninitialised as the weight of Linear.
class Embedding : public torch::nn::Module {
 public:
  Embedding(int64_t rows, int64_t dim);

  torch::Tensor weight;
  std::shared_ptr<WorkingCopy> copy;  // for products with the table; lookups read the weight
  bool in_products = false;           // whether it serves as a matrix, too
};

// LayerNorm over the last dimension, with eps 1e-6 as in the official vision code. torch and the
// official language code have 1e-5.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(int64_t dim, double eps = 1e-6, bool with_bias = true);

  torch::Tensor forward(const torch::Tensor& x) const;
  // Returns twice the normalised value. Doubling weight and bias is exact and saves a pass over x.
  torch::Tensor forward_doubled(const torch::Tensor& x) const;

  double eps() const { return eps_; }

  torch::Tensor weight;  // [dim]
  torch::Tensor bias;    // [dim], undefined without bias

 private:
  double eps_;
};

// Computes x + gamma ⊙ branch. With `drop_path` > 0 (stochastic depth, in training only) drops each
// sample's branch with probability drop_path, and divides the other branches by 1 - drop_path.
// Draws from torch's default generator. `x` and `branch` are [B, N, C], `gamma` is [C].
torch::Tensor add_scaled(const torch::Tensor& x, const torch::Tensor& gamma,
                         const torch::Tensor& branch, double drop_path = 0);

// Draws the weight of every Linear in `module`, in registration order, from a normal distribution
// of deviation 0.02, by torch's default generator. Sets biases to 0. The official normal
// distribution is truncated at ±2, a hundred deviations, which has no effect.
void init_linears(torch::nn::Module& module);

// Whether a new model draws its weights.
enum class WeightInit {
  kOfficial,  // as the official code does; draws from torch's default generator
  kNone,      // Linear weights uninitialised: for loading a checkpoint, or counting
};

// Alternating sines and cosines of the position, with wave lengths from 2 pi to 10000 * 2 pi, as
// [tokens, dim] float32.
torch::Tensor sinusoidal_positions(int64_t tokens, int64_t dim);

// The table for the longest sequence so far. Thread-safe.
class SinusoidalTable {
 public:
  // The positions [tokens, dim] in the type and on the device of `like`, whose last size is dim.
  torch::Tensor rows(int64_t tokens, const torch::Tensor& like);

 private:
  std::mutex mutex_;
  torch::Tensor table_;
};

}  // namespace tost
