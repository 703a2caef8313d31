// Tiles of rows through the maps of a transformer block, before its mixer and after it. The mixer
// itself is run by the engines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/base/checked.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa.h"
#include "tost/nn/block.h"
#include "tost/ops/packed_linear.h"
#include "tost/torch.h"

namespace tost {

// The weights of a LayerNorm as the engines read them.
struct NormWeights {
  torch::Tensor weight, bias;  // [C] float32, bias may be undefined
};

// Whether the engines can pack its weights: all of them are float32 on the CPU.
bool packable(const torch::nn::Module& model);

// How tokens meet in a block.
enum class EngineMixer : uint8_t {
  kTssa,    // by the kernel
  kNone,    // not at all
  kModule,  // by the module's forward
};

struct TokenBlockWeights {
  NormWeights norm1, norm2;
  EngineMixer mixer = EngineMixer::kModule;
  PackedLinear in, out;  // unless kModule
  torch::Tensor temp;    // [H], kTssa
  std::shared_ptr<TokenMixer> module;
  PackedLinear fc1, fc2;
  // Gamma is part of `out` and fc2, which add onto the residual stream itself; their biases times
  // gamma [C] follow with the next norm.
  torch::Tensor out_shift, fc2_shift;
  torch::Tensor gamma1, gamma2;  // [C]
};

// Copies, but for a mixer that is called as a module, which is shared. `name` is the prefix of the
// block's tensors ("blocks.0.") in messages. Throws a data Error for weights that are not finite
// where they are to become integers.
TokenBlockWeights token_block_weights(const Block& block, Packing packing, const std::string& name);

// That Error, where one of the values is not finite.
void check_roundable(const torch::Tensor& weight, const std::string& name);

// A copy as contiguous float32; undefined stays so.
torch::Tensor weight_values(const torch::Tensor& parameter);
NormWeights norm_weights(const LayerNorm& norm, float factor = 1);
PackedLinear packed_map(const Linear& linear, Packing packing);

// The numbers, null for an undefined tensor.
inline const float* data(const torch::Tensor& values) {
  return values.defined() ? values.const_data_ptr<float>() : nullptr;
}

// One piece of memory cut into many: an engine lays its workspace out twice, first to learn how
// much it takes, then on memory of that size.
class ScratchMemory {
 public:
  // Without `base` it only counts.
  explicit ScratchMemory(char* base = nullptr) : base_(base) {}

  // `bytes` on a cache line; null while counting.
  template <class T>
  T* take(int64_t bytes) {
    // Pages apart by a line more than they hold, so that pieces do not all start in the same set of
    // the caches.
    auto* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(bytes) + 64;
    return piece;
  }

  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

// Scratch of one thread; pieces have the sizes its comments name, T being the rows of a tile.
struct ThreadScratch {
  void* normed = nullptr;      // [T, C], the input of a product
  void* hidden = nullptr;      // [T, hidden]
  uint8_t* bytes = nullptr;    // [T, max(C, hidden)], int8: rows that were stored, for a product
  float* scale = nullptr;      // [2 T], int8: of normed and of stored rows
  int32_t* zero = nullptr;     // [2 T], int8
  void* product = nullptr;     // of PackedLinear
  void* gathered = nullptr;    // pixels of a convolution, of pictures
  float* attention = nullptr;  // [H, 1 + N], of pictures
};

// The pieces that the tiles of a block need; the others are null.
ThreadScratch block_scratch(ScratchMemory& memory, int64_t tile_rows, int64_t dim, int64_t hidden,
                            Packing products, int64_t product_bytes);

// Bytes that TSSA over `tokens` tokens of one sample works in.
int64_t tssa_scratch_bytes(int64_t tokens, int64_t heads, int64_t dim);

// Tokens on their way. They are stored as float32, or bfloat16 where the products are not float32;
// the residual stream is float32.
struct BlockRows {
  float* stream = nullptr;    // [rows, C]
  void* projected = nullptr;  // [rows, C]: w
  void* mixed = nullptr;      // [rows, C]: y
};

class BlockPass {
 public:
  struct Rows {
    int64_t first, count;
  };

  // `products`: the precision of the maps of the blocks. `scratch`: one a thread, by its number.
  // `rows` and `scratch` outlive it.
  BlockPass(int64_t dim, Packing products, const BlockRows& rows,
            const std::vector<ThreadScratch>& scratch)
      : dim_(dim), products_(products), rows_(rows), scratch_(scratch) {}

  // From the stream to the mixer's input, in `projected`; nothing for a module. `shift` [C] or null
  // is added to the stream first. `next`, here and below: weights that this thread reads after the
  // call, a hint.
  void front(const TokenBlockWeights& block, const float* shift, Rows rows,
             const kernels::FetchAhead& next = {}) const;
  // From the mixer's result in `mixed`, or for a module from the stream that has it, through the
  // MLP; all but the last of its biases is on the stream then (TokenBlockWeights).
  void back(const TokenBlockWeights& block, Rows rows, const kernels::FetchAhead& next = {}) const;

  // Rows of the stream, normalised, in this thread's scratch: as float32, or as the products want
  // them.
  void norm(const NormWeights& norm, const float* shift, Rows rows, bool as_float) const;
  // The same norm to somewhere else: y and its type are the caller's to set, float32 [rows, C]
  // unless it does.
  kernels::NormRowsArgs norm_args(const NormWeights& norm, const float* shift, Rows rows) const;
  // y [rows, C] times gamma onto rows of the stream.
  void add_rows(const float* y, const torch::Tensor& gamma, Rows rows) const;

  bool half() const { return products_ != Packing::kFloat32; }
  int64_t size() const { return half() ? 2 : 4; }
  kernels::DType dtype() const {
    return half() ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
  }
  const ThreadScratch& scratch() const;
  float* stream(int64_t row) const { return rows_.stream + row * dim_; }
  void* at(void* base, int64_t row, int64_t width) const {
    return static_cast<char*>(base) + row * width * size();
  }

 private:
  void mlp(const TokenBlockWeights& block, const PackedRows& x, Rows rows,
           const kernels::FetchAhead& next) const;
  PackedRows normed_rows(const NormWeights& norm, const float* shift, Rows rows) const;
  PackedRows stored_rows(const void* data, int64_t width, int64_t count, Packing packing) const;

  const int64_t dim_;
  const Packing products_;
  const BlockRows& rows_;
  const std::vector<ThreadScratch>& scratch_;
};

}  // namespace tost
