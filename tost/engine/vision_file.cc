#include "tost/engine/vision_file.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/engine/vision_weights.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;

void check_fit(const ModelInfo& info) {
  check_vision_config(info.config);
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

Preprocess preprocess_from_json(const json& object, const std::string& where) {
  expect_keys(object, {"size", "channels", "resize", "crop_ratio", "interpolation", "mean", "std"},
              where);
  return read_from(where, [&] {
    Preprocess p;
    p.size = json_integer(object["size"]);
    p.channels = json_integer(object["channels"]);
    object["resize"].get_to(p.resize);
    object["crop_ratio"].get_to(p.crop_ratio);
    object["interpolation"].get_to(p.interpolation);
    object["mean"].get_to(p.mean);
    object["std"].get_to(p.std);
    check_preprocess(p);
    return p;
  });
}

}  // namespace

json to_json(const Preprocess& p) {
  return TOST_MEMBERS(p, size, channels, resize, crop_ratio, interpolation, mean, std);
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

ModelInfo model_info_of(const std::map<std::string, std::string>& metadata,
                        const std::string& where) {
  const std::string kind = stored_kind(metadata, where);
  if (kind != "vision") fail_data(where, " holds a ", kind, " model, not an image classifier.");
  return model_info_from_json(
      stored_description(metadata, {"config", "classes", "preprocess"}, where), where);
}

bool pictures_run_in_engine(const std::filesystem::path& file) {
  const json object = config_in_header(file, "vision");
  if (object.is_null()) return false;
  return engine_has(vision_config_from_json(object));
}

void OpenedVision::logits(const float* images, int64_t count, float* to) const {
  engine->forward(images, count, info.preprocess.size, info.preprocess.size, to);
}

OpenedVision open_engine_vision(const std::filesystem::path& file, const std::string& precision) {
  return engine_vision_of(load_arrays(file), cat("'", file.string(), "'"), precision);
}

OpenedVision engine_vision_of(ArraysFile content, const std::string& where,
                              const std::string& precision) {
  OpenedVision opened{.info = model_info_of(content.metadata, where)};
  opened.precision = chosen_precision(precision, stored_precision(content.metadata, where),
                                      classifier_precisions(/*engine=*/true));
  WeightSource source(std::move(content.arrays), where);
  opened.engine = std::make_unique<PictureEngine>(opened.info.config, source, opened.precision);
  source.finish();
  return opened;
}

std::vector<std::vector<double>> classify_pictures(const ModelInfo& info,
                                                   const std::vector<Image>& fitted,
                                                   LogitsOf logits_of) {
  const Preprocess& p = info.preprocess;
  const Normalizer normalize(p);
  const auto count = int64_t(fitted.size()), size = p.channels * p.size * p.size;
  const int64_t classes = info.config.classes;
  Array images = Array::empty({count, size}), logits = Array::empty({count, classes});
  for (int64_t i = 0; i < count; ++i) {
    normalize(fitted[size_t(i)], images.mutable_data() + i * size);
  }
  logits_of(images.data(), count, logits.mutable_data());
  std::vector<std::vector<double>> shares;
  for (int64_t i = 0; i < count; ++i) {
    shares.push_back(softmax(logits.data() + i * classes, classes));
  }
  return shares;
}

std::vector<Prediction> predict_pictures(const ModelInfo& info,
                                         const std::vector<std::string>& paths, int64_t batch,
                                         int64_t top, LogitsOf logits_of) {
  if (batch < 1) fail_usage("The batch is ", batch, " but must be at least 1.");
  if (paths.empty()) fail_usage("No image was given to predict.");
  std::vector<Prediction> predictions;
  for (size_t begin = 0; begin < paths.size(); begin = predictions.size()) {
    std::vector<Image> fitted;
    for (size_t i = begin; i < std::min(paths.size(), begin + size_t(batch)); ++i) {
      fitted.push_back(fit_image(read_image(paths[i]), info.preprocess));
    }
    for (const auto& shares : classify_pictures(info, fitted, logits_of)) {
      predictions.push_back({paths[predictions.size()], rank_classes(shares, info.classes, top)});
    }
  }
  return predictions;
}

}  // namespace tost
