// What the layers of a language model do to given tokens, one number a token (and head).
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/language/model.h"

namespace tost {

// Tensors a mixer does not have stay undefined. Layers have the batch in front; float64.
struct TextLayer {
  std::string mixer;      // its name
  bool uniform = false;   // memberships are 1/H by construction
  bool descends = false;  // see descends_on_bound()
  torch::Tensor pi;       // memberships [B, H, T], sum to 1 over heads
  torch::Tensor entropy;  // of pi over heads, divided by log H (one head: 0): 0 sure, 1 undecided;
                          // [B, T]
  torch::Tensor gate;     // mean over a head's features of the output gate [B, H, T]
  torch::Tensor effect;   // |gamma1 mixer(norm x)| / |x|, x the residual stream before [B, T]
  torch::Tensor norm;     // of the residual stream after the block [B, T]
};

struct TextTrace {
  torch::Tensor loss;    // -log p in nats of each token but the first given those before [B, T - 1]
  torch::Tensor likely;  // bool: no token was likelier [B, T - 1]
  torch::Tensor guess;   // the likeliest token of all in its place [B, T - 1] int64
  std::vector<TextLayer> layers;
};

// Runs ids [B, T] once, in evaluation mode and without gradients; `inside`, unless null, gets what
// the blocks did. Errors as LanguageModel::hidden.
TextTrace trace_text(LanguageModel& model, const torch::Tensor& ids,
                     LanguageTrace* inside = nullptr);

// The mixer of block `index`, from 0.
std::string mixer_of_block(const LanguageConfig& config, int64_t index);

// Whether block `index` adds a step of the form of R_var's gradient (arXiv 2412.17810, Eq. 28):
// TSSA alone, and without convolution, first moments or gate, which add to it what no gradient of
// R_var at the layer's input has.
bool descends_on_bound(const LanguageConfig& config, int64_t index);

// The blocks of a model, first to last.
std::vector<std::shared_ptr<GptBlock>> blocks_of(const LanguageModel& model);

// How many tokens each head's running sums reach back, 1 / (1 - gamma) of its forgetting rate [H];
// undefined for a mixer whose sums forget nothing or that has none.
torch::Tensor memory_horizon(const CausalMixer& mixer);

}  // namespace tost
