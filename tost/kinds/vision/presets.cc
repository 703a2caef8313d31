#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/model_files.h"
#include "tost/kinds/vision/config.h"

namespace tost {
namespace {

struct VisionFamily {
  const char* prefix;
  const char* mixer;
  bool small_only = false;  // only the sizes that are ours
  const char* mlp = "gelu";
};
constexpr std::array kVisionFamilies{
    VisionFamily{"tost", "tssa"}, VisionFamily{"xcit", "xca"}, VisionFamily{"vit", "softmax"},
    VisionFamily{"tost_means", "means", true},
    // The name of the family in earlier builds of 0.1.0.
    VisionFamily{"tost_running", "means", true}, VisionFamily{"crate", "mssa", true},
    VisionFamily{"cbt", "cbsa", true},
    // Both halves of a block are steps on objectives.
    VisionFamily{"tost_whitebox", "tssa-tied", true, "ista"}};

struct VisionSize {
  const char* name;
  int64_t dim, depth, heads;
  double layer_scale;
  double drop_path;  // of the official README's training commands; 0 where it gives none
  int64_t image_size, classes;
  std::array<int64_t, 2> patches;
  bool tost_only = false;
  int64_t stem_depth = 1, class_blocks = 2;
};
constexpr std::array kVisionSizes{
    VisionSize{"cab_tiny_12", 192, 12, 4, 1.0, 0, 224, 1000, {16, 8}},
    VisionSize{"cab_tiny_24", 192, 24, 4, 1e-5, 0, 224, 1000, {16, 8}},
    VisionSize{"cab_small_12", 384, 12, 8, 1.0, 0.05, 224, 1000, {16, 8}},
    VisionSize{"cab_small_24", 384, 24, 8, 1e-5, 0.05, 224, 1000, {16, 8}},
    // A model that the official README trains (stochastic depth 0.15, patch 16) but no code
    // registers.
    VisionSize{"cab_medium_12", 512, 12, 8, 1.0, 0.15, 224, 1000, {16, 16}, true},
    VisionSize{"cab_medium_24", 512, 24, 8, 1e-5, 0.15, 224, 1000, {16, 8}},
    VisionSize{"cab_large_24", 768, 24, 16, 1e-5, 0, 224, 1000, {16, 8}},
    // Our presets for images of 28 to 64 pixels a side; channels, side and classes follow the data.
    // A second convolution helps in short training: on Fashion-MNIST (batch 64, learning rate 2e-3,
    // one seed) the training loss of tost_nano_p4 around step 400 is 0.71 with one convolution, and
    // 0.52 with two or three.
    VisionSize{"nano", 64, 6, 4, 1.0, 0, 32, 10, {4, 2}, false, 2},
    VisionSize{"micro", 128, 8, 8, 1.0, 0, 32, 10, {4, 2}, false, 2},
    // Without a convolutional stem, which hides what a mixer gains (docs/ablations.md).
    VisionSize{"patch_nano", 64, 6, 4, 1.0, 0, 32, 10, {4, 8}, false, 0},
    VisionSize{"patch_micro", 128, 8, 8, 1.0, 0, 32, 10, {4, 8}, false, 0},
    // The preset for photographs of 32 pixels (docs/quality.md).
    VisionSize{"photo", 96, 3, 8, 1.0, 0, 32, 10, {4, 4}, false, 3, 1},
};

VisionConfig make_config(const VisionFamily& family, const VisionSize& size, int64_t patch) {
  return {.name = cat(family.prefix, "_", size.name, "_p", patch),
          .mixer = family.mixer,
          .image_size = size.image_size,
          .patch = patch,
          .stem_depth = size.stem_depth,
          .dim = size.dim,
          .depth = size.depth,
          .heads = size.heads,
          .classes = size.classes,
          .class_blocks = size.class_blocks,
          .mlp = family.mlp,
          .layer_scale = size.layer_scale,
          .drop_path = size.drop_path};
}

std::vector<VisionConfig> make_presets() {
  std::vector<VisionConfig> presets;
  for (const auto& family : kVisionFamilies) {
    for (const auto& size : kVisionSizes) {
      if (size.tost_only && family.prefix != kVisionFamilies[0].prefix) continue;
      if (family.small_only && size.image_size == 224) continue;
      presets.push_back(make_config(family, size, size.patches[0]));
      if (size.patches[1] == size.patches[0]) continue;
      presets.push_back(make_config(family, size, size.patches[1]));
    }
  }
  VisionConfig linear;
  linear.name = linear.architecture = "linear";
  linear.mixer = "none";
  linear.image_size = 32;
  linear.classes = 10;
  presets.push_back(linear);
  return presets;
}

const std::vector<VisionConfig>& presets() {
  static const auto all = make_presets();
  return all;
}

}  // namespace

std::vector<std::string> vision_preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : presets()) names.push_back(preset.name);
  return names;
}

VisionConfig vision_preset(const std::string& name) {
  for (const auto& preset : presets()) {
    if (preset.name == name) return preset;
  }
  const auto names = vision_preset_names();
  const auto hint = did_you_mean(name, names);
  fail_usage("There is no model '", name, "'.",
             hint.empty() ? " The models are " + join(names, ", ") + "." : hint);
}

const PresetNames vision_names{vision_preset_names()};

}  // namespace tost
