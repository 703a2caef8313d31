// Properties of blocks in configurations: names of mixers, also in earlier builds of 0.1.0, and the
// width of the MLP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

// The mixers that see all tokens, and the causal ones (tost/nn/mixers.cc).
inline std::vector<std::string> mixer_names() {
  return {"tssa", "means", "linear",    "softmax", "xca", "ssm",
          "mssa", "cbsa",  "tssa-tied", "uniform", "none"};
}
inline std::vector<std::string> causal_mixer_names() {
  return {"tssa", "means", "delta", "linear", "softmax", "ssm", "uniform", "none"};
}

// Converts a mixer's name in earlier builds to the present name; returns other names unchanged.
std::string mixer_in_use(const std::string& name);
std::string causal_mixer_in_use(const std::string& name);
// Whether a mixer of an earlier build was dropped.
bool is_dropped_mixer(const std::string& name, bool causal);

// Throws a usage Error for heads that do not divide dim.
void check_heads(int64_t dim, int64_t heads);

// The name of the mixer of block `index`, counted from 0, for a configuration with the members
// mixer, hybrid_mixer and hybrid_every.
template <class Config>
const std::string& mixer_of_block(const Config& c, int64_t index) {
  const bool hybrid = c.hybrid_every > 0 && (index + 1) % c.hybrid_every == 0;
  return hybrid ? c.hybrid_mixer : c.mixer;
}

// The hidden width of an MLP: floor(dim * ratio), without rounding errors for a ratio of width /
// dim.
inline int64_t hidden_width(int64_t dim, double ratio) {
  constexpr double kRounding = 1e-6;
  return static_cast<int64_t>(static_cast<double>(dim) * ratio + kRounding);
}

}  // namespace tost
