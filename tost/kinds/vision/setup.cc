#include "tost/kinds/vision/setup.h"

#include "tost/base/error.h"
#include "tost/kinds/vision/presets.h"

namespace tost {
namespace {

// The data's side where the patch divides it; whole pictures are then used as they are.
int64_t input_side(const VisionTrainConfig& config, const VisionConfig& base,
                   const ImageDataset& train) {
  if (config.image_size > 0) return config.image_size;
  const bool fits =
      train.side() > 0 && (base.architecture == "linear" || train.side() % base.patch == 0);
  return fits && config.from.empty() ? train.side() : base.image_size;
}

VisionConfig with_options(VisionConfig config, const nlohmann::json& options) {
  if (options.empty()) return config;
  try {
    return vision_config_from_json(merge(to_json(config), options));
  } catch (const Error& error) {
    fail_usage("model_options cannot be used: ", error.what());
  }
}

VisionConfig make_vision_config(const VisionTrainConfig& config, VisionConfig base,
                                const ImageDataset& train) {
  const bool own_channels = config.from.empty();
  base.image_size = input_side(config, base, train);
  base.classes = int64_t(train.classes().size());
  if (own_channels) base.in_channels = train.channels();
  if (config.drop_path >= 0) base.drop_path = config.drop_path;
  if (!config.mixer.empty() && base.architecture != "linear") base.mixer = config.mixer;
  base = with_options(base, config.model_options);
  if (base.classes != int64_t(train.classes().size())) {
    fail_usage("model_options asks for ", base.classes, " classes but the data has ",
               train.classes().size(), ".");
  }
  validate(base);
  return base;
}

}  // namespace

ModelInfo make_model_info(const VisionTrainConfig& config, const ModelInfo* from,
                          const ImageDataset& train) {
  ModelInfo source;
  if (from == nullptr) {
    source.config = vision_preset(config.model);
  } else {
    source = *from;
    if (!config.mixer.empty() && config.mixer != source.config.mixer) {
      fail_usage("'", config.from, "' was trained with mixer ", source.config.mixer,
                 " and cannot go on with ", config.mixer, ".");
    }
  }
  ModelInfo info;
  info.config = make_vision_config(config, source.config, train);
  info.classes = train.classes();
  info.preprocess = {.size = info.config.image_size,
                     .channels = info.config.in_channels,
                     .resize = config.resize,
                     .crop_ratio = config.crop_ratio,
                     .interpolation = config.interpolation,
                     .mean = source.preprocess.mean,
                     .std = source.preprocess.std};
  if (info.preprocess.mean.empty()) {
    const ChannelStats stats = channel_stats(train, info.config.in_channels);
    info.preprocess.mean = stats.mean;
    info.preprocess.std = stats.std;
  }
  return info;
}

}  // namespace tost
