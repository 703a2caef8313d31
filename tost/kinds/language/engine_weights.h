// The parts of a language engine: its weights, which a decoding step reads once each in the
// requested precision, and its two ways through the model, of few tokens and of many.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tost/base/parallel.h"
#include "tost/kernels/products/few_rows.h"
#include "tost/kernels/row_ops.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/precision.h"
#include "tost/ops/packed_linear.h"
#include "tost/ops/quantized_weight.h"

namespace tost {

// Group means between the products of a language engine: convolution, membership, running means and
// gate, for a few tokens as for many.

// Of a CausalMeansMixer, all but its linear maps.
struct MeansWeights {
  MeansWeights() = default;
  explicit MeansWeights(const CausalMeansMixer& mixer);

  int64_t taps() const { return filter.defined() ? filter.size(0) : 1; }
  int64_t bytes() const;

  int64_t heads = 0, dim = 0;
  bool gate = false;
  torch::Tensor router_bias, temp;  // [H] float32
  torch::Tensor filter;             // [taps, C] float32; undefined without a convolution
  torch::Tensor scale;              // [C] float32
  torch::Tensor decay;              // [H] float64
};

// Tokens of one call and the mixer's state, both updated in place.
struct MeansMix {
  int64_t batch = 0, tokens = 0;
  const float* parts = nullptr;  // [B T, C] u, v and with a gate g, side by side
  float* pi = nullptr;           // [B T, H]: the router's products, then memberships times H
  float* base = nullptr;         // [B T, C], work
  float* y = nullptr;            // [B T, C], the result
  double* sums = nullptr;        // [B, H, P + 1]
  float* past = nullptr;         // [B, taps - 1, C]; null without a convolution
};

int64_t mix_means_workspace(const MeansWeights& weights, int64_t batch, int64_t tokens);
void mix_means(const MeansWeights& weights, const MeansMix& mix, void* workspace,
               ParallelFor parallel);

// The state's sums and earlier tokens, made where there are none and owned by nobody else. Throws a
// usage Error for those of another number of texts or another model.
struct MeansState {
  MeansState(const MeansWeights& weights, int64_t batch, MixerState& state);

  double* sums;
  float* past;
};

// One linear map. Integer weights are rounded as quantized_weight.h says.
struct StepWeight {
  StepWeight() = default;
  // weight [out, in], bias [out] or undefined, float32; a float32 weight is shared, not copied.
  StepWeight(const torch::Tensor& weight, const torch::Tensor& bias, kernels::WeightType type);

  int64_t outputs() const { return values.size(0); }
  int64_t bytes() const;                     // that a product reads
  torch::Tensor rounded() const;             // [out, in] float32
  void row(int64_t index, float* to) const;  // one of its rows in float32

  kernels::WeightType type = kernels::WeightType::kFloat32;
  int64_t inputs = 0;
  torch::Tensor values, scales, bias;
};

struct NormWeight {
  static constexpr float kEps = 1e-5f;  // of every norm of a language model

  explicit NormWeight(const LayerNorm& norm);
  torch::Tensor weight, bias;  // [C] float32; bias may be undefined
};

// What stands between a block's two projections.
enum class BlockMixer : uint8_t {
  kTssa,     // the operator of kernels/tssa_causal.h
  kMeans,    // running group means, kernels/means.h
  kSoftmax,  // attention with a key-value cache
  kModule,   // anything else: the module as a whole, on rounded weights
};

struct LanguageBlockWeights {
  LanguageBlockWeights(const Block& block, const LanguageConfig& config, kernels::WeightType type);

  BlockMixer kind;
  NormWeight norm1, norm2;
  StepWeight in, out;  // of the mixer; unused for kModule
  StepWeight fc, proj;
  StepWeight router;                  // kMeans
  MeansWeights means;                 // kMeans
  torch::Tensor gamma1, gamma2;       // [C] float32
  torch::Tensor temp, denom_bias;     // kTssa
  double scale = 1;                   // kTssa: of the operator's result
  std::shared_ptr<TokenMixer> mixer;  // kSoftmax, kModule
};

// Throws a usage Error unless a tensor of a block's state has these sizes, the texts first.
void check_state(const torch::Tensor& state, at::IntArrayRef sizes,
                 torch::ScalarType type = torch::kDouble);

struct LanguageWeights {
  // Shares the model's tensors and mixers where it can, so these must not change.
  LanguageWeights(const LanguageModel& model, Precision precision);

  int64_t step_bytes() const;  // that a step reads: all but the rows of the tables it looks up

  LanguageConfig config;
  kernels::WeightType type;
  StepWeight table;         // tokens, and head
  torch::Tensor positions;  // [block, C] float32, or undefined
  // Token and position [C] of one row.
  void embed(int64_t id, int64_t position, float* to) const;
  std::vector<LanguageBlockWeights> blocks;
  NormWeight norm;
  int64_t mlp_hidden = 0;
  kernels::Activation activation = kernels::Activation::kGelu;

 private:
  void gather();
};

// A few tokens through a whole language model, bound by reading the weights: every thread makes its
// share of each product's outputs and waits for the others once a product.
// Not thread-safe. `weights` outlive it.
class LanguageStep {
 public:
  explicit LanguageStep(const LanguageWeights& weights);

  // Reads ids [B, T] int64, contiguous and valid, B T from 1 to kernels::kMostFewRows, after
  // `state`, which has an entry for every block. logits: [B, vocab] of the token after the last, or
  // null. Moving the state's position is left to the caller. Throws a usage Error for a state of
  // another batch.
  void run(const torch::Tensor& ids, LanguageState& state, float* logits);

  // One token of each of several texts, whatever their positions: ids[i] after *states[i], which
  // has an entry for every block and is another one for every text. logits: [texts, vocab]. What a
  // text gets is that of a call for it alone, bit for bit. Moving positions is left to the caller.
  void run_texts(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states,
                 float* logits);

  // The head on rows [count, C] that have passed the final norm: logits [count, vocab].
  void head(const float* rows, int64_t count, float* logits) const;

 private:
  enum class Work : uint8_t { kIn, kTssa, kMeans, kOut, kFc, kProj, kHead, kAttention, kModule };
  struct Stage {
    Work work;
    int64_t block;
  };
  struct Range {
    int64_t begin, end;
  };

  void add_stages();
  void reserve(int threads);
  void run_stages(float* logits);
  float* normed(int thread);
  void embed(const int64_t* ids);
  void prepare_states();
  void prepare_workspace(int threads);
  void work(const Stage& stage, int thread, int threads);
  void norm_rows(const NormWeight& norm, const float* x, int64_t stride, int64_t rows,
                 float* y) const;
  // Rows are taken a few at a time against weights that stay in the cache meanwhile; a row's sums
  // do not depend on those it is taken with.
  void multiply_rows(kernels::FewRowsArgs args, int64_t rows, Range range) const;
  // This thread's outputs of the product, which it returns; with gamma added onto y.
  Range multiply(const StepWeight& weight, const float* x, int64_t rows, float* y,
                 const torch::Tensor* gamma, int thread, int threads);
  void expand(const LanguageBlockWeights& block, const float* x, int thread, int threads);
  kernels::CausalForwardArgs tssa_args(size_t text) const;
  void tssa(const Stage& stage, int thread, int threads) const;
  void means(const Stage& stage, int thread, int threads);
  void call_module(const Stage& stage, size_t text);

  const LanguageWeights& weights_;
  const int64_t dim_, widest_;
  std::vector<Stage> stages_;
  // room_ rows each: the residual stream, what a mixer reads and gives, the MLP between its
  // products.
  torch::Tensor x_, w_, y_, sums_, hidden_;
  torch::Tensor pi_, base_;  // of group means: [rows, H], [rows, C]
  int64_t room_ = 0;
  torch::Tensor own_;  // scratch of every thread
  int64_t own_bytes_ = 0;
  torch::Tensor workspace_;  // of the operator, of every thread
  int64_t workspace_bytes_ = 0;
  // Of the present call: states_ has one entry of batch_ rows, or batch_ entries of one row.
  int64_t batch_ = 0, tokens_ = 0;
  std::vector<LanguageState*> states_;
  std::vector<double*> statistics_;  // of block and text, null where it has none
  std::vector<std::optional<MeansState>> means_;
  float* logits_ = nullptr;
};

// Many tokens through a whole language model, bound by its matrix products: a thread takes a tile
// of tokens from a mixer's result through the block's MLP to the next mixer's input, so that
// nothing but the residual stream and the mixers' tokens goes through memory.
// Not thread-safe. `weights` outlive it.
class LanguagePrefill {
 public:
  // Lays out the weights once more, in bfloat16 where they are held in less than float32 and this
  // CPU multiplies bfloat16, else in float32.
  explicit LanguagePrefill(const LanguageWeights& weights);

  // Reads ids [B, T] int64, contiguous and valid, after `state`, which has an entry for every
  // block: the residual stream [B T, C] float32, valid until the next call. Moving the state's
  // position is left to the caller. Takes memory for B T tokens. Throws a usage Error for a state
  // of another batch.
  const torch::Tensor& run(const torch::Tensor& ids, LanguageState& state);

  // One token of each of several texts: as LanguageStep::run_texts(), the residual stream [texts,
  // C].
  const torch::Tensor& run_texts(const std::vector<int64_t>& ids,
                                 const std::vector<LanguageState*>& states);
  // Whether its products give each row the same bits however many are multiplied.
  bool rows_alone() const;

  // The head on rows [n, C] float32 contiguous that have passed the final norm: logits [n, vocab].
  void head(const torch::Tensor& rows, const torch::Tensor& logits);

  int64_t bytes() const;  // of the blocks' weights laid out

 private:
  struct Block {
    PackedLinear in, out, fc, proj;       // out and proj times gamma
    torch::Tensor out_shift, proj_shift;  // their biases times gamma; undefined without
    PackedLinear router;                  // of group means
  };
  struct Tile {
    int64_t first, rows;
    char* scratch;
  };

  void reserve(int64_t rows);
  const torch::Tensor& run_all(const int64_t* ids);
  void embed(const int64_t* ids);
  void over_tiles(int64_t block);
  void close(int64_t block, const Tile& tile);  // from a mixer's result to the block's end
  void open(int64_t block, const Tile& tile);   // from a block's beginning to its mixer's input
  void shift(const torch::Tensor& bias, const Tile& tile);
  void norm(const NormWeight& norm, const Tile& tile, void* y, bool narrow);
  void mix(int64_t block);
  void mix_module(int64_t block, size_t text);
  void tssa(const LanguageBlockWeights& block, int64_t index, size_t text, int threads);
  void means(const LanguageBlockWeights& block, int64_t index, size_t text, int threads);
  torch::Tensor rows_of(const torch::Tensor& buffer, int64_t width, bool narrow) const;

  const LanguageWeights& weights_;
  const int64_t dim_;
  const bool narrow_;  // tokens between products in bfloat16
  const int64_t tile_rows_;
  std::vector<Block> blocks_;
  PackedLinear head_;       // laid out when first needed
  int64_t tile_bytes_ = 0;  // scratch of a thread
  // Of all rows: the residual stream, and as raw memory what mixers read and give.
  torch::Tensor x_, w_, y_;
  torch::Tensor pi_;  // [rows, H], of group means
  // Of the present call: states_ has one entry of batch_ texts, or batch_ entries of one.
  int64_t batch_ = 0, tokens_ = 0;
  std::vector<LanguageState*> states_;
};

}  // namespace tost
