// Runs tiles of rows through the maps of a transformer block before and after its mixer. The
// engines run the mixer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/base/checked.h"
#include "tost/engine/packed_linear.h"
#include "tost/engine/weight_source.h"
#include "tost/kernels/row_ops.h"

namespace tost {

// How tokens meet in a block.
enum class EngineMixer : uint8_t {
  kTssa,    // by the kernel
  kNone,    // not at all
  kModule,  // by the caller's function
};

// Sizes of a block's maps.
struct BlockShape {
  int64_t dim, hidden, heads;
  bool qkv_bias;
};

struct TokenBlockWeights {
  NormWeight norm1, norm2;
  EngineMixer mixer = EngineMixer::kModule;
  PackedLinear in, out;  // unless kModule
  Array temp;            // [H, 1], kTssa
  PackedLinear fc1, fc2;
  // Gamma is part of `out` and fc2, which add onto the residual stream itself; their biases times
  // gamma [C] follow with the next norm.
  Array out_shift, fc2_shift;
  Array gamma1, gamma2;  // [C]
};

// Of the tensors whose names begin with `name` ("blocks.0."). Throws as WeightSource, and a data
// Error for weights that are not finite where they are to become integers.
TokenBlockWeights token_block_weights(WeightSource& source, const std::string& name,
                                      const BlockShape& shape, EngineMixer mixer, Packing packing);

// A map with its bias, by the name of its tensors.
PackedLinear packed_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                        Packing packing, bool bias = true);

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

  // `products` is the precision of the maps; `scratch` has an entry for each thread. `rows` and
  // `scratch` must outlive this object.
  BlockPass(int64_t dim, Packing products, const BlockRows& rows,
            const std::vector<ThreadScratch>& scratch)
      : dim_(dim), products_(products), rows_(rows), scratch_(scratch) {}

  // From the stream to the mixer's input, in `projected`; nothing for kModule. `shift` [C] or null
  // is added to the stream first. `next`, here and below: weights that this thread reads after the
  // call, a hint.
  void front(const TokenBlockWeights& block, const float* shift, Rows rows,
             const kernels::FetchAhead& next = {}) const;
  // From the mixer's result in `mixed`, or for kModule from the stream that has it, through the
  // MLP; all but the last of its biases is on the stream then (TokenBlockWeights).
  void back(const TokenBlockWeights& block, Rows rows, const kernels::FetchAhead& next = {}) const;

  // Rows of the stream, normalised, in this thread's scratch: as float32, or as the products want
  // them.
  void norm(const NormWeight& norm, const float* shift, Rows rows, bool as_float) const;
  // The same norm to somewhere else: y and its type are the caller's to set, float32 [rows, C]
  // unless it does.
  kernels::NormRowsArgs norm_args(const NormWeight& norm, const float* shift, Rows rows) const;
  // y [rows, C] times gamma onto rows of the stream.
  void add_rows(const float* y, const Array& gamma, Rows rows) const;

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
  PackedRows normed_rows(const NormWeight& norm, const float* shift, Rows rows) const;
  PackedRows stored_rows(const void* data, int64_t width, int64_t count, Packing packing) const;

  const int64_t dim_;
  const Packing products_;
  const BlockRows& rows_;
  const std::vector<ThreadScratch>& scratch_;
};

}  // namespace tost
