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
  std::string mixer = "tssa";                // see mixer_names()
  int64_t in_channels = 3;                   // 1 or 3
  int64_t image_size = 224;  // nominal side; the transformer takes any sides divisible by patch
  int64_t patch = 16;        // 2, 4, 8 or 16: the stem is that many halvings
  int64_t stem_depth = 1;    // convolutions at each of them; officially 1
  int64_t dim = 384;         // C
  int64_t depth = 12;        // blocks before the class token joins
  int64_t heads = 8;         // H, divides dim
  int64_t classes = 1000;
  int64_t class_blocks = 2;  // class-attention blocks after them
  double mlp_ratio = 4;
  double layer_scale = 1;  // initial value; officially 1 for depth 12, 1e-5 for depth 24
  double drop_path = 0;    // stochastic depth, the same in every block, none in class attention
  // The number of register tokens: learned tokens in addition to the patches (arXiv 2309.16588); 0
  // to 64.
  int64_t registers = 0;
  bool qkv_bias = true;
  bool tokens_norm = true;  // class attention normalises patch tokens too (see transformer.h)

  bool operator==(const VisionConfig&) const = default;
};

// Throws a usage Error with the reason if `config` describes no possible model.
void validate(const VisionConfig& config);

// Writes `registers` only if there are some, so that older programs can read other models.
nlohmann::json to_json(const VisionConfig& config);

// Reads a configuration, without validate(). Throws a data Error naming the key for unknown keys,
// wrong types and missing sizes (architecture, mixer, in_channels, image_size, patch, dim, depth,
// heads, classes); other missing keys have defaults.
VisionConfig vision_config_from_json(const nlohmann::json& json);

// The multiply-adds of matrix products and convolutions in a forward pass of one image, as in the
// official table. Queries of class attention count for every token, although the network computes
// fewer (1.4 % less work at depth 12). Divide by 1e9 for GMAC.
int64_t vision_multiply_adds(const VisionConfig& config, int64_t height, int64_t width);

}  // namespace tost
