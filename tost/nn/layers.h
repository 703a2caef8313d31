// Linear map, LayerNorm, MLP and the scaled residual: the parts every block is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "tost/nn/working_copy.h"
#include "tost/torch.h"

namespace tost {

// x Wᵀ + b over the last dimension, of few rows without gradients at the speed of memory
// (ops/few_rows.h). weight [out, in]; bias [out] may be undefined.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias = {});

// The same as a module. Weight [out, in] and bias [out] are left uninitialised: they
// are drawn by `init_linears` or read from a checkpoint, so nothing is written twice.
class Linear : public torch::nn::Module {
 public:
  Linear(int64_t in, int64_t out, bool with_bias);

  torch::Tensor forward(const torch::Tensor& x) const { return linear(x, product_weight(), bias); }
  // Only output features [first, first + count): reads those rows of the weight, copies nothing.
  torch::Tensor forward_rows(const torch::Tensor& x, int64_t first, int64_t count) const;

  // What products read: the weight, or under autocast its working copy where there is one.
  torch::Tensor product_weight() const { return tost::product_weight(weight, copy); }

  torch::Tensor weight;               // [out, in]
  torch::Tensor bias;                 // [out], undefined without bias
  std::shared_ptr<WorkingCopy> copy;  // null: there is none
};

// A table of vectors, one a row [rows, dim], left uninitialised as Linear is.
class Embedding : public torch::nn::Module {
 public:
  Embedding(int64_t rows, int64_t dim);

  torch::Tensor weight;
  std::shared_ptr<WorkingCopy> copy;  // for products with the table; lookups read the weight
  bool in_products = false;           // whether it serves as a matrix, too
};

// LayerNorm over the last dimension, eps 1e-6 as the official vision code has it (torch's default,
// and the official language code's, is 1e-5).
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(int64_t dim, double eps = 1e-6, bool with_bias = true);

  torch::Tensor forward(const torch::Tensor& x) const;
  // Twice the normalised value. Doubling the two small vectors is exact and saves a pass over x.
  torch::Tensor forward_doubled(const torch::Tensor& x) const;

  double eps() const { return eps_; }

  torch::Tensor weight;  // [dim]
  torch::Tensor bias;    // [dim], undefined without bias

 private:
  double eps_;
};

// x + gamma ⊙ branch. With `drop_path` > 0 each sample's branch is dropped with that probability
// and the survivors are divided by 1 - drop_path (stochastic depth); pass 0 outside training. Draws
// from torch's default generator. x, branch [B, N, C], gamma [C].
torch::Tensor add_scaled(const torch::Tensor& x, const torch::Tensor& gamma,
                         const torch::Tensor& branch, double drop_path = 0);

// Every Linear below `module`: weight normal with deviation 0.02, bias 0. (The official truncated
// normal cuts at ±2, a hundred deviations, so it never truncates.) Draws from torch's default
// generator, in registration order.
void init_linears(torch::nn::Module& module);

// Whether a new model draws its weights.
enum class WeightInit {
  kOfficial,  // as the official code does; draws from torch's default generator
  kNone,      // Linear weights uninitialised: for loading a checkpoint, or counting
};

// Sines and cosines of the position, interleaved, at wave lengths from 2 pi to 10000 * 2 pi:
// [tokens, dim] float32.
torch::Tensor sinusoidal_positions(int64_t tokens, int64_t dim);

// Keeps the table of the longest sequence so far. Threads may share it.
class SinusoidalTable {
 public:
  // [tokens, dim] of the type and on the device of `like`, whose last size is dim.
  torch::Tensor rows(int64_t tokens, const torch::Tensor& like);

 private:
  std::mutex mutex_;
  torch::Tensor table_;
};

}  // namespace tost
