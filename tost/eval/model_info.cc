#include "tost/eval/model_info.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kConfigKey[] = "tost.config";
constexpr char kClassesKey[] = "tost.classes";
constexpr char kPreprocessKey[] = "tost.preprocess";

void expect_keys(const json& object, const std::vector<std::string>& keys,
                 const std::string& where) {
  if (!object.is_object())
    fail_data(where, " should be a JSON object but is ", object.dump().substr(0, 60), ".");
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      fail_data(where, " has the unknown key '", key, "'.", did_you_mean(key, keys));
    }
  }
  for (const std::string& key : keys) {
    if (!object.contains(key)) fail_data(where, " lacks the key '", key, "'.");
  }
}

// Runs `read`, turning a wrong JSON type or an impossible value into a data Error about `where`.
template <class Read>
auto read_from(const std::string& where, Read read) {
  try {
    return read();
  } catch (const json::exception& error) {
    fail_data(where, " holds a value of the wrong type (", error.what(), ").");
  } catch (const Error& error) {
    fail_data(where, " cannot be used: ", error.what());
  }
}

void check_fit(const ModelInfo& info) {
  validate(info.config);
  check_preprocess(info.preprocess);
  if (int64_t(info.classes.size()) != info.config.classes) {
    fail_data(info.classes.size(), " class names for a model of ", info.config.classes,
              " classes.");
  }
  if (info.preprocess.channels != info.config.in_channels) {
    fail_data("pictures of ", info.preprocess.channels, " channels for a model of ",
              info.config.in_channels, ".");
  }
}

}  // namespace

json to_json(const Preprocess& p) {
  return {{"size", p.size},
          {"channels", p.channels},
          {"resize", p.resize},
          {"crop_ratio", p.crop_ratio},
          {"interpolation", p.interpolation},
          {"mean", p.mean},
          {"std", p.std}};
}

Preprocess preprocess_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"size", "channels", "resize", "crop_ratio", "interpolation", "mean", "std"},
              where);
  return read_from(where, [&] {
    Preprocess p;
    object["size"].get_to(p.size);
    object["channels"].get_to(p.channels);
    object["resize"].get_to(p.resize);
    object["crop_ratio"].get_to(p.crop_ratio);
    object["interpolation"].get_to(p.interpolation);
    object["mean"].get_to(p.mean);
    object["std"].get_to(p.std);
    check_preprocess(p);
    return p;
  });
}

json to_json(const ModelInfo& info) {
  return {{"config", to_json(info.config)},
          {"classes", info.classes},
          {"preprocess", to_json(info.preprocess)}};
}

ModelInfo model_info_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"config", "classes", "preprocess"}, where);
  return read_from(where, [&] {
    ModelInfo info{vision_config_from_json(object["config"]),
                   object["classes"].get<std::vector<std::string>>(),
                   preprocess_from_json(object["preprocess"], "its preprocess")};
    check_fit(info);
    return info;
  });
}

std::map<std::string, std::string> to_metadata(const ModelInfo& info) {
  return {{"format", "pt"},
          {kConfigKey, to_json(info.config).dump()},
          {kClassesKey, json(info.classes).dump()},
          {kPreprocessKey, to_json(info.preprocess).dump()}};
}

ModelInfo model_info_from_metadata(const std::map<std::string, std::string>& metadata,
                                   const std::string& where) {
  const auto part = [&](const char* key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) {
      fail_data(where, " has no '", key,
                "' in its metadata, so it is not a model file of this program.");
    }
    json value = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded())
      fail_data(where, " has '", key, "' that is not JSON in its metadata.");
    return value;
  };
  const json object{{"config", part(kConfigKey)},
                    {"classes", part(kClassesKey)},
                    {"preprocess", part(kPreprocessKey)}};
  return model_info_from_json(object, where);
}

}  // namespace tost
