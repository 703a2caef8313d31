#include "tost/engine/vision_config.h"

#include "tost/engine/config_json.h"
#include "tost/engine/mixer_names.h"

namespace tost {

namespace {

constexpr int64_t kMaxSide = 16384, kMaxClasses = 1'000'000, kMaxRegisters = 64;

void check_vision_size(const VisionConfig& c) {
  const double width = static_cast<double>(c.dim);
  check_parameters(
      static_cast<double>(c.depth + c.class_blocks) * width * width * (4 + 2 * c.mlp_ratio) +
          static_cast<double>(c.classes) * width,
      cat("width ", c.dim, ", depth ", c.depth, " and ", c.classes, " classes"));
}

void check_transformer(const VisionConfig& c) {
  if (c.patch != 2 && c.patch != 4 && c.patch != 8 && c.patch != 16) {
    fail_usage("Model setting 'patch' is ", c.patch, "; it must be 2, 4, 8 or 16.");
  }
  if (c.image_size % c.patch != 0) {
    fail_usage("Image side ", c.image_size, " is not divisible by the patch side ", c.patch, "; ",
               c.image_size / c.patch * c.patch + c.patch, " is the next side that is.");
  }
  check_field_range("stem_depth", c.stem_depth, 0, 8);
  check_field_range("dim", c.dim, 1, kMaxDim);
  check_field_range("depth", c.depth, 1, kMaxDepth);
  check_field_range("class_blocks", c.class_blocks, 1, kMaxDepth);
  check_field_range("heads", c.heads, 1, c.dim);
  check_field_range("registers", c.registers, 0, kMaxRegisters);
  check_heads(c.dim, c.heads);
  if (c.stem_depth > 0 && c.dim % (c.patch / 2) != 0) {
    fail_usage("Width ", c.dim, " cannot be halved along the patch-", c.patch,
               " stem; it must be divisible by ", c.patch / 2);
  }
  check_mlp(c.mlp);
  check_mlp_ratio(c.mlp_ratio, c.dim);
  check_field_finite("layer_scale", c.layer_scale);
  check_field_share("drop_path", c.drop_path);
  check_vision_size(c);
}

// Lists every field with its key, and whether JSON may omit it; see config_json.h.
constexpr auto kVisionFields = [](auto& c, auto&& visit) {
  visit("name", c.name, true);
  visit("architecture", c.architecture, false);
  visit("mixer", c.mixer, false);
  visit("in_channels", c.in_channels, false);
  visit("image_size", c.image_size, false);
  visit("patch", c.patch, false);
  visit("stem_depth", c.stem_depth, true);
  visit("dim", c.dim, false);
  visit("depth", c.depth, false);
  visit("heads", c.heads, false);
  visit("classes", c.classes, false);
  visit("class_blocks", c.class_blocks, true);
  visit("mlp_ratio", c.mlp_ratio, true);
  visit("layer_scale", c.layer_scale, true);
  visit("drop_path", c.drop_path, true);
  visit("qkv_bias", c.qkv_bias, true);
  visit("tokens_norm", c.tokens_norm, true);
  visit("registers", c.registers, true);
  visit("mlp", c.mlp, true);
};

}  // namespace

void check_vision_config(const VisionConfig& c) {
  if (c.in_channels != 1 && c.in_channels != 3) {
    fail_usage("Model setting 'in_channels' is ", c.in_channels, "; images have 1 or 3 channels.");
  }
  check_field_range("image_size", c.image_size, 1, kMaxSide);
  check_field_range("classes", c.classes, 1, kMaxClasses);
  if (c.architecture == "transformer") {
    check_transformer(c);
  } else if (c.architecture != "linear") {
    fail_usage("There is no architecture '", c.architecture, "'; it is transformer or linear.");
  } else if (c.registers != 0) {
    fail_usage("The linear model has no tokens that ", c.registers,
               " registers could be added to; leave 'registers' at 0.");
  }
}

void check_sides(const VisionConfig& c, int64_t height, int64_t width) {
  if (height > 0 && width > 0 && height % c.patch == 0 && width % c.patch == 0) return;
  fail_data("Images of ", height, " x ", width, " pixels do not divide into patches of ", c.patch,
            " x ", c.patch, " (model '", c.name, "'); resize them to multiples of ", c.patch, ".");
}

nlohmann::json to_json(const VisionConfig& config) {
  auto json = config_to_json(config, kVisionFields);
  if (config.registers == 0) json.erase("registers");
  if (config.mlp == "gelu") json.erase("mlp");
  return json;
}

VisionConfig vision_config_from_json(const nlohmann::json& json) {
  VisionConfig config;
  config_from_json(json, kVisionFields, /*partial=*/false, config);
  config.mixer = mixer_in_use(config.mixer);
  return config;
}

}  // namespace tost
