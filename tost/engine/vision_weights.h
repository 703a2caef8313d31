// The parts of a vision engine: its weights, laid out once with batch norms folded, its memory, and
// the patch tokens' pass through them. kinds/vision/transformer.h has the model that it is of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/base/parallel.h"
#include "tost/engine/packed_linear.h"
#include "tost/engine/picture_maps.h"
#include "tost/engine/vision_config.h"
#include "tost/engine/weight_source.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/schedule.h"

namespace tost {

// A 3x3 convolution and its batch norm as a product over gathered pixels, or the map of a patch.
// Inputs have the order (row, column, channel); in the first stage (channel, row, column), padded
// with zeros to product.inputs().
struct StemStage {
  int64_t from = 0, to = 0, stride = 1;
  int64_t side = 3;  // of the kernel; a patch is not padded
  PackedLinear product;
};

// How tokens meet in a block.
enum class EngineMixer : uint8_t {
  kTssa,    // by the kernel
  kNone,    // not at all
  kModule,  // by the caller's function
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

// Attention of the class token without keys and values of the patches (attend_rows.h). For each
// head, W_kᵀ maps the query, and W_v maps the weighted sum of tokens. The bias of keys has no
// effect, because the bias adds the same number to all logits.
struct ClassBlockWeights {
  NormWeight norm1, norm2;
  NormWeight doubled;  // norm2 with twice the weight and bias, for the tokens; undefined without
  PackedLinear query;  // [C, C]
  std::vector<PackedLinear> key, value;  // one a head, [C, P] and [P, C]
  PackedLinear out, fc1, fc2;
  Array gamma1, gamma2;
};

struct VisionWeights {
  std::vector<StemStage> stem;
  std::vector<TokenBlockWeights> blocks;
  std::vector<ClassBlockWeights> class_blocks;
  PackedLinear position;  // [C, 64], of the Fourier code
  Array class_token;      // [C]
  Array registers;        // [R, C] or undefined
  NormWeight norm;
  PackedLinear head;
};

// `products` is what the blocks compute with; where that is int8, the stem and the class token, a
// tenth of the work, stay in bfloat16. Copies what it needs. Throws as WeightSource, and a data
// Error for weights that are not finite where they are to become integers.
VisionWeights pack_vision_weights(const VisionConfig& config, WeightSource& source,
                                  Packing products);

// A map with its bias, by the name of its tensors.
PackedLinear packed_map(WeightSource& source, const std::string& name, int64_t out, int64_t in,
                        Packing packing, bool bias = true);

// The unlearned code [rows * columns, 64] of positions: 32 channels of the row, then 32 of the
// column; sine and cosine interleaved over 16 frequencies 10000^(-i/16); coordinates
// (1 ... n) * 2 pi / (n + 1e-6).
Array position_code(int64_t rows, int64_t columns);

// How the engine runs this mixer.
EngineMixer engine_mixer(const VisionConfig& config);

// What a mixer of one picture's tokens had inside, where it has memberships: projected tokens w
// [M, C] and memberships pi [H, M].
struct SeenMixer {
  Array w, pi;
};

// Runs the mixer of a block that the engine lacks: y like x [B, M, C], normalised tokens. `seen`
// may be null.
using VisionMixer = std::function<void(int64_t block, const Array& x, float* y, SeenMixer* seen)>;

// The sizes of one pass over at most `images` pictures.
struct VisionShape {
  int64_t images = 0;
  int64_t rows = 0, columns = 0;    // of patches
  int64_t patches = 0, tokens = 0;  // N, and M = N + registers
  int64_t threads = 1;
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

// The workspace of the vision engine, reused by all calls. Rows are [images, M]. Tokens are stored
// as float32, or bfloat16 where the products are not float32; the residual stream is float32.
class VisionWorkspace {
 public:
  VisionWorkspace(const VisionConfig& config, const VisionWeights& weights,
                  const VisionShape& shape, int64_t tile_rows);

  bool half() const { return products != Packing::kFloat32; }
  kernels::DType dtype() const {
    return half() ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
  }
  void* at(void* base, int64_t row, int64_t width = 1) const {
    return static_cast<char*>(base) + row * width * (half() ? 2 : 4);
  }

  const VisionShape shape;
  const int64_t tile_rows;    // T
  const Packing products;     // of blocks
  float* stream = nullptr;    // [rows, C]
  void* projected = nullptr;  // [rows, C]: w
  void* mixed = nullptr;      // [rows, C]: y
  void* tssa = nullptr;       // [images] pieces of tssa_bytes
  int64_t tssa_bytes = 0;
  std::vector<void*>
      classed;  // one a class block [images, 1 + N, C]: normed class and patch tokens
  std::vector<ThreadScratch> scratch;  // [threads]
  // The inputs of stages, [threads][stages]. The first stage has an input here only if its type is
  // not float32.
  std::vector<std::vector<void*>> pictures;
  float* class_stream = nullptr;  // [images, C]
  void* class_normed = nullptr;   // [images, C]
  float* class_query = nullptr;   // [images, H, C]
  void* class_sums = nullptr;     // [images, H, C]
  void* class_values = nullptr;   // [images, C]
  void* class_hidden = nullptr;   // [images, hidden]

 private:
  void lay_out(const VisionConfig& config, const VisionWeights& weights, kernels::Arena& memory);

  Array memory_;
};

// Computes patch tokens by stem, position code and blocks, and their inputs to class attention.
class TokenPass {
 public:
  struct Rows {
    int64_t first, count;
  };

  TokenPass(const VisionConfig& config, const VisionWeights& weights, const VisionMixer& mixer,
            VisionWorkspace& workspace, const float* position)
      : config_(config),
        weights_(weights),
        mixer_(mixer),
        workspace_(workspace),
        position_(position) {}

  // Runs the pictures [first, first + count) of `images` [.., channels, Y, X] through the blocks,
  // and writes the input of the class blocks to workspace.classed, rows 1 to N. `parallel` divides
  // rows among `threads` threads; serial_for and 1 thread mean that the caller's threads have
  // separate pictures.
  void run(const float* images, int64_t first, int64_t count, ParallelFor parallel,
           int64_t threads) const;
  // Runs one picture, the only one of the workspace's, and adds the maps of its layers.
  void trace(const float* picture, PictureMaps& maps) const;

 private:
  void embed(const float* images, int64_t image, ParallelFor parallel, int64_t threads) const;
  const void* rounded_picture(const float* picture, int64_t owner, ParallelFor parallel) const;
  void stem_rows(size_t stage, const void* planes, int64_t image, int64_t owner, Rows rows) const;
  // From the stream to the mixer's input, in `projected`; nothing for kModule. `shift` [C] or null
  // is added to the stream first. `next`, here and below: weights that this thread reads after the
  // call, a hint.
  void front(const TokenBlockWeights& block, const float* shift, Rows rows,
             const kernels::FetchAhead& next = {}) const;
  // Adds the mixer's result in `mixed` to the stream, which for kModule has it.
  void add_mixed(const TokenBlockWeights& block, Rows rows) const;
  // Goes through the MLP; all but the last of the block's biases is on the stream after
  // (TokenBlockWeights).
  void finish(const TokenBlockWeights& block, Rows rows,
              const kernels::FetchAhead& next = {}) const;
  // Rows of the stream, normalised, in this thread's scratch: as float32, or as the products want
  // them.
  void norm(const NormWeight& norm, const float* shift, Rows rows, bool as_float) const;
  PackedRows normed_rows(const NormWeight& norm, const float* shift, Rows rows) const;
  // The same norm to somewhere else: y and its type are the caller's to set, float32 [rows, C]
  // unless it does.
  kernels::NormRowsArgs norm_args(const NormWeight& norm, const float* shift, Rows rows) const;
  // y [rows, C] times gamma onto rows of the stream.
  void add_rows(const float* y, const Array& gamma, Rows rows) const;
  PackedRows stored_rows(const void* data, int64_t width, int64_t count, Packing packing) const;
  const ThreadScratch& scratch() const;
  float* stream(int64_t row) const { return workspace_.stream + row * config_.dim; }

  void mix(int64_t index, const float* shift, int64_t first, int64_t count, ParallelFor parallel,
           int64_t threads, SeenMixer* seen = nullptr) const;
  void mix_by_caller(int64_t index, const float* shift, int64_t first, int64_t count,
                     SeenMixer* seen) const;
  void class_rows(int64_t image, Rows rows) const;

  template <class Body>
  void for_tiles(int64_t first, int64_t count, ParallelFor parallel, int64_t threads,
                 const Body& body) const;

  const VisionConfig& config_;
  const VisionWeights& weights_;
  const VisionMixer& mixer_;
  VisionWorkspace& workspace_;
  const float* position_;  // [N, C]
};

// The number of output pixels that are gathered at a time, so that they stay in the L2 cache.
int64_t stem_tile_rows(const StemStage& stage);

// Computes the output pixels [first, first + count) of one stage of a picture, count <=
// stem_tile_rows().
struct StemCall {
  const StemStage& stage;
  bool half = false;              // pictures are bfloat16, else float32
  const void* planes = nullptr;   // [from, rows, columns] for the first stage
  const void* picture = nullptr;  // [rows, columns, from] for the others
  int64_t rows = 0, columns = 0;  // of the input
  void* gathered = nullptr;       // scratch [count, product.inputs()]
  void* scratch = nullptr;        // of the product
};
void run_stem_stage(const StemCall& call, int64_t first, int64_t count, const PackedResult& result);

// Whether an engine has the model's mixer.
bool engine_has(const VisionConfig& config);

// The mixers `means` or `softmax` (nn/causal_means.h, nn/mixer_attention.h) of all blocks; null for
// other mixers. Products are in float32, or in bfloat16 where `products` is narrower and this CPU
// multiplies bfloat16; all else is float32. Throws as WeightSource.
VisionMixer engine_mixers(const VisionConfig& config, WeightSource& source, Packing products);

}  // namespace tost
