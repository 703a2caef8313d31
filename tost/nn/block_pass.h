// Runs tiles of rows through the maps of a transformer block before and after its mixer. The
// engines run the mixer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/base/checked.h"
#include "tost/engine/packed_linear.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa.h"
#include "tost/nn/block.h"
#include "tost/torch.h"

namespace tost {

// The weights of a LayerNorm in the form of the engines.
struct NormWeights {
  torch::Tensor weight, bias;  // [C] float32, bias may be undefined
};

// Whether the engines can pack the weights of a model: all are float32 on the CPU.
bool packable(const torch::nn::Module& model);

// The method by which an engine runs the mixer of a block.
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
  // `out` and fc2 contain gamma and add to the residual stream directly. The next norm adds their
  // biases times gamma [C].
  torch::Tensor out_shift, fc2_shift;
  torch::Tensor gamma1, gamma2;  // [C]
};

// Copies the weights of a block, but shares a mixer that runs as a module. `name` is the prefix of
// the block's tensors ("blocks.0.") in messages. Throws a data Error if weights to be quantised are
// not finite.
TokenBlockWeights token_block_weights(const Block& block, Packing packing, const std::string& name);

// Throws a data Error naming the weight if a value is not finite.
void check_roundable(const torch::Tensor& weight, const std::string& name);

// A contiguous copy in float32; undefined for an undefined parameter.
torch::Tensor weight_values(const torch::Tensor& parameter);
NormWeights norm_weights(const LayerNorm& norm, float factor = 1);
PackedLinear packed_map(const Linear& linear, Packing packing);

// A pointer to the values; null for an undefined tensor.
inline const float* data(const torch::Tensor& values) {
  return values.defined() ? values.const_data_ptr<float>() : nullptr;
}

// Divides one block of memory into pieces. An engine lays out its workspace twice: first to learn
// the size, then in memory of this size.
class ScratchMemory {
 public:
  // With a null `base`, only adds up sizes.
  explicit ScratchMemory(char* base = nullptr) : base_(base) {}

  // Returns `bytes` bytes that begin on a cache line; null if `base` is null.
  template <class T>
  T* take(int64_t bytes) {
    // Puts a cache line between pages, so that pieces do not all start in the same set of the
    // caches.
    auto* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(bytes) + 64;
    return piece;
  }

  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

// The workspace of one thread. The comments give sizes; T is the number of rows of a tile.
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

// The bytes of workspace of TSSA over `tokens` tokens of one sample.
int64_t tssa_scratch_bytes(int64_t tokens, int64_t heads, int64_t dim);

// Tokens on their way. The residual stream is float32; w and y are float32, or bfloat16 if the
// products are not float32.
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

  // Computes the mixer's input `projected` from the stream; does nothing for a module. First adds
  // `shift` [C], unless it is null, to the stream. `next` names weights that this thread reads
  // after the call, to be prefetched.
  void front(const TokenBlockWeights& block, const float* shift, Rows rows,
             const kernels::FetchAhead& next = {}) const;
  // Adds the mixer's result `mixed` to the stream, unless the mixer is a module. Adds the MLP's
  // result without the last bias, which is fc2_shift.
  void back(const TokenBlockWeights& block, Rows rows, const kernels::FetchAhead& next = {}) const;

  // Normalises rows of the stream into this thread's workspace, as float32 or as the products'
  // type.
  void norm(const NormWeights& norm, const float* shift, Rows rows, bool as_float) const;
  // The arguments of a norm with another destination: the caller sets y, and its type unless it is
  // float32.
  kernels::NormRowsArgs norm_args(const NormWeights& norm, const float* shift, Rows rows) const;
  // Adds y [rows, C] times gamma to rows of the stream.
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
