#include "tost/kinds/vision/model_file.h"

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/kinds/vision/config.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/safetensors.h"
#include "tost/store/foreign_source.h"

namespace tost {

namespace {

namespace fs = std::filesystem;

Preprocess foreign_preprocess(const VisionConfig& config, const ModelFacts& facts) {
  const ChannelStats stats = imagenet_stats(config.in_channels);
  return {.size = config.image_size,
          .channels = config.in_channels,
          .resize = "crop",
          .crop_ratio = facts.crop_ratio.value_or(1),
          .interpolation = facts.interpolation.empty() ? "bicubic" : facts.interpolation,
          .mean = facts.mean.empty() ? stats.mean : facts.mean,
          .std = facts.std.empty() ? stats.std : facts.std};
}

ModelInfo vision_info(const ForeignWeights& weights) {
  const ModelFacts facts = weights.facts();
  if (facts.description) return model_info_from_json(*facts.description, "its description");
  ModelInfo info;
  info.config = foreign_vision_config(weights, facts);
  validate(info.config);
  info.preprocess = foreign_preprocess(info.config, facts);
  check_preprocess(info.preprocess);
  info.classes = facts.classes;
  if (info.classes.empty()) {
    for (int64_t i = 0; i < info.config.classes; ++i) info.classes.push_back(cat(i));
  }
  if (int64_t(info.classes.size()) != info.config.classes) {
    fail_data(info.classes.size(), " class names for ", info.config.classes, " classes.");
  }
  return info;
}

// Reads weights of other programs (foreign_source.h). Throws data Errors naming the file, and a
// tensor that does not fit. A file without a description of preprocessing gets that of the official
// evaluation: bicubic scaling of the shorter side to args.input_size (224 by default), the central
// square, ImageNet's mean and deviation. Classes without names are called "0", "1", ….
LoadedModel load_foreign_vision(const fs::path& file, Weights which) {
  const ForeignWeights weights = open_foreign_weights(file, which);
  expect_kind(weights, "vision", "an image classifier");
  const StateDict state = weights.read();
  return read_from(cat("'", file.string(), "'"), [&] {
    LoadedModel loaded;
    loaded.file = file;
    loaded.info = vision_info(weights);
    loaded.model = make_image_classifier(loaded.info.config, WeightInit::kNone);
    load_state_dict(*loaded.model, state);
    finish_loading(*loaded.model, "it");
    return loaded;
  });
}

}  // namespace

LoadedModel load_model_file(const std::filesystem::path& path, Weights weights) {
  const std::filesystem::path file = find_intact_model_file(path, weights);
  if (is_foreign_checkpoint(file)) return load_foreign_vision(file, weights);
  return load_described(file, model_info_of, make_image_classifier);
}

void save_model_file(const std::filesystem::path& file, const ImageClassifier& model,
                     const ModelInfo& info) {
  save_safetensors(file, state_dict(model), to_metadata(info));
}

}  // namespace tost
