#include "tost/kinds/vision/model_file.h"

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safetensors.h"
#include "tost/kinds/vision/foreign.h"
#include "tost/nn/state_dict.h"
#include "tost/store/foreign_source.h"
#include "tost/store/metadata.h"
#include "tost/store/quantized_file.h"

namespace tost {

LoadedModel load_model_file(const std::filesystem::path& path, Weights weights) {
  LoadedModel loaded;
  loaded.file = find_intact_model_file(path, weights);
  if (is_foreign_checkpoint(loaded.file)) return load_foreign_vision(loaded.file, weights);
  const SafetensorsFile content = load_safetensors(loaded.file);
  const std::string where = cat("'", loaded.file.string(), "'");
  const std::string kind = stored_kind(content.metadata, where);
  if (kind != "vision") fail_data(where, " holds a ", kind, " model, not an image classifier.");
  loaded.info = model_info_from_json(
      stored_description(content.metadata, {"config", "classes", "preprocess"}, where), where);
  loaded.model = make_image_classifier(loaded.info.config, WeightInit::kNone);
  take_described_weights(*loaded.model, content.tensors, where);
  loaded.precision = stored_precision(content.metadata, where);
  return loaded;
}

void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info) {
  save_safetensors(file, state_dict(model), to_metadata(info));
}

namespace {

using nlohmann::json;

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
  return TOST_MEMBERS(p, size, channels, resize, crop_ratio, interpolation, mean, std);
}

Preprocess preprocess_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"size", "channels", "resize", "crop_ratio", "interpolation", "mean", "std"},
              where);
  return read_from(where, [&] {
    Preprocess p;
    p.size = whole_number(object["size"]);
    p.channels = whole_number(object["channels"]);
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
  return described_metadata("vision", to_json(info));
}

}  // namespace tost
