#include "tost/kinds/vision/config.h"

#include "tost/engine/mixer_names.h"
#include "tost/nn/token_mixer.h"

namespace tost {

void validate(const VisionConfig& c) {
  if (c.architecture == "transformer") check_mixer_name(c.mixer);
  check_vision_config(c);
}

namespace {

int64_t stem_multiply_adds(const VisionConfig& c, int64_t height, int64_t width) {
  const int64_t position = kPositionChannels * c.dim * (height / c.patch) * (width / c.patch);
  if (c.stem_depth == 0) return c.in_channels * c.dim * height * width + position;
  int64_t total = 0, from = c.in_channels;
  for (int64_t rest = c.patch; rest > 1; rest /= 2) {
    const int64_t to = c.dim / (rest / 2);
    height /= 2;
    width /= 2;
    total += 9 * (from + (c.stem_depth - 1) * to) * to * height * width;
    from = to;
  }
  return total + position;
}

}  // namespace

int64_t vision_multiply_adds(const VisionConfig& c, int64_t height, int64_t width) {
  if (c.architecture == "linear") return c.in_channels * height * width * c.classes;
  const int64_t tokens = (height / c.patch) * (width / c.patch);
  const auto hidden = c.mlp == "ista" ? c.dim : hidden_width(c.dim, c.mlp_ratio);
  const int64_t mlp = 2 * c.dim * hidden;
  const MixerConfig mixer{.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias};
  const int64_t all = tokens + c.registers;
  const int64_t block = mixer_multiply_adds(c.mixer, mixer, all) + all * mlp;
  const int64_t class_block = (tokens + 1) * (3 * c.dim * c.dim + 2 * c.dim) + c.dim * c.dim + mlp;
  return stem_multiply_adds(c, height, width) + c.depth * block + c.class_blocks * class_block +
         c.dim * c.classes;
}

}  // namespace tost
