// The weights of a language model in the form and the precision of its engine.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/engine/language_config.h"
#include "tost/engine/language_state.h"
#include "tost/engine/mixers.h"
#include "tost/engine/precision.h"
#include "tost/engine/weight_source.h"
#include "tost/kernels/row_ops.h"

namespace tost {

struct TracedBlock;  // text_trace.h

// What stands between a block's two projections.
enum class BlockMixer : uint8_t {
  kTssa,     // the operator of kernels/tssa_causal.h
  kMeans,    // running group means, kernels/means.h
  kDelta,    // the delta rule, kernels/delta.h
  kSoftmax,  // attention with a key-value cache
};

struct LanguageBlockWeights {
  // Every linear map; some are undefined.
  std::vector<StepWeight*> maps() { return {&in, &router, &gate, &forget, &out, &fc, &proj}; }
  std::vector<const StepWeight*> maps() const {
    return {&in, &router, &gate, &forget, &out, &fc, &proj};
  }

  BlockMixer kind = BlockMixer::kTssa;
  NormWeight norm1, norm2;
  StepWeight in, out;      // of the mixer
  StepWeight fc, proj;     // of the MLP
  StepWeight router;       // kMeans; of kDelta the strengths of updates
  StepWeight gate;         // of all but kMeans, where they have one
  StepWeight forget;       // kDelta, where its decay is learned
  MeansWeights means;      // kMeans
  DeltaWeights delta;      // kDelta
  SoftmaxWeights softmax;  // kSoftmax
  Array gamma1, gamma2;    // [C] float32
  Array temp;              // [H, 1], kTssa
  Array denom_bias;        // [H, positions, 1], kTssa
  Array filter;            // [taps, C], kTssa; undefined without a convolution
  double scale = 1;        // kTssa: of the operator's result
};

struct LanguageWeights {
  // Copies the maps, and shares the other arrays of the source if possible. Throws a data Error for
  // a model with a mixer that the engine lacks, and as WeightSource.
  LanguageWeights(const LanguageConfig& config, WeightSource& source, Precision precision);

  int64_t step_bytes() const;  // that a step reads: all but the rows of the tables it looks up
  // Writes the sum of the token's and the position's vectors [C] for one row.
  void embed(int64_t id, int64_t position, float* to) const;
  // Moves all weights into one block of memory, so that the system uses huge pages.
  void gather();

  LanguageConfig config;
  kernels::WeightType type;
  StepWeight table;  // tokens, and head
  Array positions;   // [block, C] float32, or undefined
  std::vector<LanguageBlockWeights> blocks;
  NormWeight norm;
  int64_t mlp_hidden = 0;
  kernels::Activation activation = kernels::Activation::kGelu;
};

// Whether the engine has the model's mixers. Also false for additions that none of them has,
// because only the full program knows those of every mixer.
bool engine_has(const LanguageConfig& config);

// Throws a data Error for ids [n] that the model cannot read after `position` tokens.
void check_ids(const LanguageConfig& config, const int64_t* ids, int64_t count);
void check_position(const LanguageConfig& config, int64_t position, int64_t tokens);

}  // namespace tost
