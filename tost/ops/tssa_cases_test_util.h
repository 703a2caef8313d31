// The cases on which the operator is held to its plain form: values, gradients, every instruction
// set, every number of threads.
#pragma once

#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

struct TssaCase {
  std::string name;
  int64_t batch, tokens, heads, width;
  double scale = 1;               // of w
  double temp = 1;                // temps are spread over [temp / 2, 3 temp / 2]
  int64_t zero_channels = 0;      // the first of each sample: their energy is 0, the clamp binds
  std::string layout = "packed";  // or rows_apart, batch_inner, channels_apart
  // Valid tokens of each sample; empty: all. The padding is NaN.
  std::vector<int64_t> lengths = {};

  int64_t channels() const { return heads * width; }
};

inline std::ostream& operator<<(std::ostream& out, const TssaCase& c) {
  return out << c.name;
}

inline std::vector<TssaCase> tssa_cases() {
  std::vector<TssaCase> cases = {
      {"vision", 2, 197, 12, 64},
      {"width48", 2, 196, 8, 48},
      {"one_token", 3, 1, 4, 16},
      {"one_head", 2, 19, 1, 24},
      {"many_heads", 1, 9, 300, 1},
      {"long", 1, 2050, 2, 8},
      {"block_edge", 2, 65, 3, 16},
      {"sharp", 2, 12, 4, 16, 1.0, 40.0},
      {"zero_temp", 2, 12, 4, 16, 1.0, 0.0},
      {"zero_input", 2, 20, 3, 8, 0.0},
      {"zero_channels", 2, 20, 3, 8, 1.0, 1.0, 10},
      {"clamped", 2, 20, 3, 8, 1e-14},
      {"tiny", 2, 20, 3, 8, 1e-6},
      {"large", 2, 20, 3, 8, 1e4},
      {"rows_apart", 2, 21, 3, 7, 1.0, 1.0, 0, "rows_apart"},
      {"batch_inner", 3, 21, 2, 16, 1.0, 1.0, 0, "batch_inner"},
      {"channels_apart", 2, 21, 2, 16, 1.0, 1.0, 0, "channels_apart"},
  };
  // Around every vector width there is, whole and broken groups of tokens.
  for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33}) {
    cases.push_back({"w" + std::to_string(width), 1, 7 + width % 4, 3, width});
  }
  for (const int64_t tokens : {2, 7, 8, 9, 15, 16, 17, 63, 64, 66}) {
    cases.push_back({"n" + std::to_string(tokens), 1, tokens, 2, 6});
  }
  return cases;
}

// Those of samples with different lengths.
inline std::vector<TssaCase> tssa_ragged_cases() {
  return {
      {"ragged", 4, 21, 3, 8, 1.0, 1.0, 0, "packed", {21, 1, 8, 13}},
      {"ragged_blocks", 5, 200, 2, 5, 1.0, 3.0, 0, "packed", {65, 200, 64, 127, 2}},
      {"ragged_none", 3, 70, 2, 6, 1.0, 1.0, 0, "packed", {0, 70, 0}},
      {"ragged_all_none", 2, 9, 2, 6, 1.0, 1.0, 0, "packed", {0, 0}},
      {"ragged_zero_channels", 2, 20, 3, 8, 1.0, 1.0, 10, "packed", {20, 7}},
      {"ragged_rows_apart", 3, 21, 3, 7, 1.0, 1.0, 0, "rows_apart", {5, 21, 16}},
      {"ragged_batch_inner", 3, 21, 2, 16, 1.0, 1.0, 0, "batch_inner", {9, 20, 3}},
  };
}

// Deterministic in the case. [B, N, C] of `dtype`, in the case's layout.
inline torch::Tensor tssa_case_tokens(const TssaCase& c, torch::ScalarType dtype, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto values =
      torch::randn({c.batch, c.tokens, c.channels()}, generator, torch::kFloat64) * c.scale;
  if (c.zero_channels > 0) values.slice(2, 0, c.zero_channels).zero_();
  for (size_t i = 0; i < c.lengths.size(); ++i) {
    values[int64_t(i)].slice(0, c.lengths[i]).fill_(std::nan(""));
  }
  values = values.to(dtype);
  if (c.layout == "rows_apart") {
    auto wide = torch::full({c.batch, c.tokens, c.channels() + 5}, 1e30, dtype);
    return wide.slice(2, 2, c.channels() + 2).copy_(values);
  }
  if (c.layout == "batch_inner") return values.transpose(0, 1).contiguous().transpose(0, 1);
  if (c.layout == "channels_apart") return values.transpose(1, 2).contiguous().transpose(1, 2);
  return values;
}

inline std::optional<torch::Tensor> tssa_case_lengths(const TssaCase& c) {
  if (c.lengths.empty()) return std::nullopt;
  return torch::tensor(c.lengths, torch::kLong);
}

inline torch::Tensor tssa_case_temp(const TssaCase& c) {
  return torch::linspace(0.5 * c.temp, 1.5 * c.temp, c.heads, torch::kFloat32).view({c.heads, 1});
}

}  // namespace tost
