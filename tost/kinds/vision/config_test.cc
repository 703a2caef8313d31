#include "tost/kinds/vision/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tost/base/error.h"

namespace tost {
namespace vision_config_test {

using nlohmann::json;

void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& action) {
  try {
    action();
    FAIL() << "no error; expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(VisionConfigJson, EveryPresetComesBackEqual) {
  for (const auto& name : vision_preset_names()) {
    const auto config = vision_preset(name);
    EXPECT_EQ(vision_config_from_json(json::parse(to_json(config).dump())), config) << name;
  }
}

TEST(VisionConfigJson, RegistersAreWrittenOnlyWhereThereAreSome) {
  auto config = vision_preset("tost_nano_p4");
  EXPECT_FALSE(to_json(config).contains("registers"));
  config.registers = 4;
  EXPECT_EQ(vision_config_from_json(json::parse(to_json(config).dump())), config);
}

// Files without the key have GELU, and those of other programs stay as they were.
TEST(VisionConfigJson, TheMlpIsWrittenOnlyIfItIsNotGelu) {
  auto config = vision_preset("tost_nano_p4");
  EXPECT_FALSE(to_json(config).contains("mlp"));
  for (const std::string mlp : {"ista", "tied"}) {
    config.mlp = mlp;
    EXPECT_EQ(to_json(config).at("mlp"), mlp);
    EXPECT_EQ(vision_config_from_json(to_json(config)), config);
    validate(config);
  }
}

TEST(VisionConfigJson, OptionalKeysKeepDefaultsAndSizesAreRequired) {
  const auto whole = to_json(vision_preset("tost_nano_p4"));
  for (const std::string key : {"name", "stem_depth", "class_blocks", "mlp_ratio", "layer_scale",
                                "drop_path", "qkv_bias", "tokens_norm"}) {
    auto partial = whole;
    partial.erase(key);
    EXPECT_NO_THROW(vision_config_from_json(partial)) << key;
  }
  for (const std::string key : {"architecture", "mixer", "in_channels", "image_size", "patch",
                                "dim", "depth", "heads", "classes"}) {
    auto partial = whole;
    partial.erase(key);
    expect_error(ErrorKind::kData, "'" + key + "'", [&] { vision_config_from_json(partial); });
  }
}

TEST(VisionConfigJson, WrongTypesAndKeysAreNamed) {
  const auto with = [](const std::string& key, const json& value) {
    auto config = to_json(vision_preset("tost_nano_p4"));
    config[key] = value;
    return [config] { vision_config_from_json(config); };
  };
  expect_error(ErrorKind::kData, "'dim' must be an integer", with("dim", "64"));
  expect_error(ErrorKind::kData, "'dim' must be an integer", with("dim", 64.0));
  expect_error(ErrorKind::kData, "'dim' must be an integer", with("dim", nullptr));
  expect_error(ErrorKind::kData, "'dim'", with("dim", std::numeric_limits<uint64_t>::max()));
  expect_error(ErrorKind::kData, "'mixer' must be a string", with("mixer", 3));
  expect_error(ErrorKind::kData, "'qkv_bias' must be true or false", with("qkv_bias", 1));
  expect_error(ErrorKind::kData, "'mlp_ratio' must be a number", with("mlp_ratio", true));
  expect_error(ErrorKind::kData, "unknown key 'head'", with("head", 4));
  expect_error(ErrorKind::kData, "'heads'", with("head", 4));
  for (const json& other : {json::array(), json(3), json("x"), json()}) {
    expect_error(ErrorKind::kData, "must be a JSON object",
                 [&] { vision_config_from_json(other); });
  }
}

TEST(VisionConfigChecks, EverySettingOutOfRangeIsAUsageErrorWithAReason) {
  const auto with = [](const std::function<void(VisionConfig&)>& change) {
    auto config = vision_preset("tost_cab_tiny_12_p16");
    change(config);
    return [config] { validate(config); };
  };
  using C = VisionConfig;
  const auto usage = ErrorKind::kUsage;
  expect_error(usage, "5 heads do not divide the width 192", with([](C& c) { c.heads = 5; }));
  expect_error(usage, "'heads'", with([](C& c) { c.heads = 0; }));
  expect_error(usage, "not divisible by the patch side 16", with([](C& c) { c.image_size = 225; }));
  expect_error(usage, "1 or 3 channels", with([](C& c) { c.in_channels = 2; }));
  expect_error(usage, "2, 4, 8 or 16", with([](C& c) { c.patch = 7; }));
  expect_error(usage, "2, 4, 8 or 16", with([](C& c) { c.patch = 0; }));
  expect_error(usage, "softmax", with([](C& c) { c.mixer = "softmaxx"; }));
  expect_error(usage, "divisible by 8", with([](C& c) { c.dim = 196; }));
  expect_error(usage, "'stem_depth'", with([](C& c) { c.stem_depth = -1; }));
  expect_error(usage, "'depth'", with([](C& c) { c.depth = 0; }));
  expect_error(usage, "'classes'", with([](C& c) { c.classes = 0; }));
  expect_error(usage, "'class_blocks'", with([](C& c) { c.class_blocks = -1; }));
  expect_error(usage, "'drop_path'", with([](C& c) { c.drop_path = 1; }));
  expect_error(usage, "'drop_path'", with([](C& c) { c.drop_path = std::nan(""); }));
  expect_error(usage, "'mlp_ratio'", with([](C& c) { c.mlp_ratio = 0; }));
  expect_error(usage, "'mlp_ratio'", with([](C& c) { c.mlp_ratio = std::nan(""); }));
  expect_error(usage, "gelu, ista, tied. Did you mean 'tied'?", with([](C& c) { c.mlp = "tie"; }));
  expect_error(usage, "'layer_scale'", with([](C& c) { c.layer_scale = INFINITY; }));
  expect_error(usage, "'dim'", with([](C& c) { c.dim = int64_t{1} << 40; }));
  expect_error(usage, "parameters", with([](C& c) { c.dim = 16384, c.depth = 1024; }));
  expect_error(usage, "'registers'", with([](C& c) { c.registers = 65; }));
  expect_error(usage, "'registers'", with([](C& c) { c.registers = -1; }));
  expect_error(usage, "no tokens", with([](C& c) { c.architecture = "linear", c.registers = 1; }));
  expect_error(usage, "architecture", with([](C& c) { c.architecture = "resnet"; }));
}

}  // namespace vision_config_test
}  // namespace tost
