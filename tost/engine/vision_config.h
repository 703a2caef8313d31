// The configuration of an image classifier, its checks and its JSON form (stored in model files and
// run folders).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tost {

struct VisionConfig {
  std::string name = "custom";               // preset it came from; not interpreted
  std::string architecture = "transformer";  // or "linear": flatten and one Linear, the baseline
  std::string mixer = "tssa";                // of the tokens
  int64_t in_channels = 3;                   // 1 or 3
  int64_t image_size = 224;  // nominal side; the transformer takes any sides divisible by patch
  int64_t patch = 16;        // 2, 4, 8 or 16: a convolutional stem halves the side that often
  int64_t stem_depth = 1;    // convolutions at each halving; officially 1. 0: one map of each patch
  int64_t dim = 384;         // C
  int64_t depth = 12;        // blocks before the class token joins
  int64_t heads = 8;         // H, divides dim
  int64_t classes = 1000;
  int64_t class_blocks = 2;  // class-attention blocks after them
  std::string mlp = "gelu";  // gelu, ista or tied, see nn/block.h
  double mlp_ratio = 4;      // hidden values or atoms a width; ista has the width
  double layer_scale = 1;    // initial value; officially 1 for depth 12, 1e-5 for depth 24
  double drop_path = 0;      // stochastic depth, the same in every block, none in class attention
  // The number of learned tokens in addition to the patches, for what belongs to no patch (arXiv
  // 2309.16588); 0 to 64.
  int64_t registers = 0;
  bool qkv_bias = true;
  bool tokens_norm = true;  // class attention normalises patch tokens too (vision_weights.h)

  bool operator==(const VisionConfig&) const = default;
};

// Channels of the unlearned code of positions.
inline constexpr int64_t kPositionChannels = 64;

// Throws a usage Error with the reason for an impossible configuration, whatever its mixer.
void check_vision_config(const VisionConfig& config);

// Throws the data Error of pictures whose sides the model's patches do not divide.
void check_sides(const VisionConfig& config, int64_t height, int64_t width);

// Leaves defaults of `registers` and `mlp` out, for programs that do not know these keys.
nlohmann::json to_json(const VisionConfig& config);

// Reads a configuration, and checks no value. Throws a data Error naming the key for unknown keys,
// wrong types and missing sizes (architecture, mixer, in_channels, image_size, patch, dim, depth,
// heads, classes); other missing keys keep their defaults.
VisionConfig vision_config_from_json(const nlohmann::json& json);

}  // namespace tost
