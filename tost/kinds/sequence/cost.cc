// Computes work and memory of a classifier of sequences from its configuration.
#include <algorithm>
#include <array>
#include <cmath>

#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

constexpr double kFloatBytes = 4;
// The floats of a parameter: its value, its gradient and two moments.
constexpr double kCopies = 4;

// The measured numbers of values that a mixer saves for backward, as multiples of the width: for
// each token, and for each layer. A mixer that is not in the table has the last row.
struct Saved {
  const char* mixer;
  double per_token, per_layer;
};
constexpr std::array kSaved{Saved{"tssa", 3, 0}, Saved{"uniform", 5, 0}, Saved{"none", 2, 0},
                            Saved{"softmax", 6, 0}, Saved{"xca", 9, 0}, Saved{"linear", 9, 0},
                            Saved{"means", 5, 0}, Saved{"tssa-tied", 7, 0}, Saved{"mssa", 4, 0},
                            Saved{"cbsa", 12, 0},
                            // The Toeplitz matrices of its chunks, and their inputs.
                            Saved{"ssm", 10, 21'000}};

double saved_by_mixer(const std::string& name, const SequenceConfig& c, double tokens) {
  const Saved* found = &kSaved.back();
  for (const auto& entry : kSaved) {
    if (name == entry.mixer) found = &entry;
  }
  return double(c.dim) * (tokens * found->per_token + found->per_layer);
}

double head_parameters(const SequenceConfig& c) {
  const double from = c.pairs ? double(mlp_hidden(c)) : double(c.dim);
  return double(c.classes) * (from + 1) + (c.pairs ? (4 * double(c.dim) + 1) * from : 0);
}

double parameters_of(const SequenceConfig& c) {
  const double dim = double(c.dim);
  double total = (double(c.vocab) + double(position_count(c))) * dim;
  total += (c.pool == "class" ? dim : 0) + 2 * dim + head_parameters(c);
  for (int64_t i = 0; i < c.depth; ++i) {
    const MixerConfig mixer{.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias};
    const BlockConfig block{.dim = c.dim, .mlp = c.mlp, .mlp_hidden = mlp_hidden(c)};
    total += double(parameter_count(Block(block, make_mixer(mixer_of_block(c, i), mixer))));
  }
  return total;
}

// The number of values per token that a block saves without its mixer: inputs of both norms,
// outputs of mixer and MLP, inputs of the MLP's maps and of GELU, and masks of dropout.
double saved_by_block(const SequenceConfig& c) {
  const double dim = double(c.dim), hidden = double(mlp_hidden(c));
  return (c.dropout > 0 ? 5.5 : 5) * dim + 2 * hidden;
}

}  // namespace

int64_t sequence_training_bytes(const SequenceConfig& c, int64_t batch, int64_t tokens) {
  validate(c);
  const double dim = double(c.dim), hidden = double(mlp_hidden(c));
  // Uses double, because a product of hostile sizes must not overflow.
  const double read = double(std::max<int64_t>(0, batch)) * (c.pairs ? 2 : 1) *
                      (double(std::max<int64_t>(0, tokens)) + (c.pool == "class" ? 1 : 0));
  // Adds the values of the embedding, of the final norm, and of gradients in the last block.
  double saved = read * (2 * dim + hidden + 2 * dim);
  for (int64_t i = 0; i < c.depth; ++i) {
    saved += read * saved_by_block(c) + saved_by_mixer(mixer_of_block(c, i), c, read);
  }
  const double bytes = kFloatBytes * (kCopies * parameters_of(c) + saved);
  return bytes < 9e18 ? std::llround(bytes) : INT64_MAX;
}

}  // namespace tost
