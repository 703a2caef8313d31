#include "tost/train/vision_train_config.h"

#include "tost/base/error.h"
#include "tost/models/token_mixer.h"
#include "tost/models/vision_presets.h"

namespace tost {
namespace {

using enum OnResume;
using C = VisionTrainConfig;

constexpr int64_t kMany = int64_t{1} << 40;

void add_model_fields(FieldTable<C>& t) {
  t.choice("recipe", &C::recipe, names_of(vision_recipes()), kFree, "named set of defaults")
      .choice("model", &C::model, vision_preset_names(), kFixed, "model preset")
      .text("from", &C::from, kFixed,
            "model file to fine-tune (its architecture replaces the preset)")
      .text("mixer", &C::mixer, kFixed, "token mixer (empty: the preset's)")
      .integer("image_size", &C::image_size, 0, 4096, kFixed,
               "input side in pixels (0: the data's)")
      .number("drop_path", &C::drop_path, -1, 0.99, kFixed, "stochastic depth (-1: the preset's)")
      .object("model_options", &C::model_options, kFixed, "further model fields, as in model.json");
}

void add_data_fields(FieldTable<C>& t) {
  t.text("data", &C::data, kWarn, "data folder, or shapes (generated)")
      .choice("data_format", &C::data_format,
              {"auto", "idx", "cifar10", "cifar100", "folder", "shapes"}, kFixed,
              "format of the data")
      .integer("data_seed", &C::data_seed, 0, kMany, kFixed, "seed of generated data")
      .integer("data_side", &C::data_side, 8, 1024, kFixed, "side of generated pictures")
      .integer("train_size", &C::train_size, 1, 10'000'000, kFixed, "generated training pictures")
      .integer("test_size", &C::test_size, 1, 10'000'000, kFixed, "generated test pictures")
      .number("holdout", &C::holdout, -1, 0.9, kFixed,
              "share of the training pictures kept for validation where the data has no such split "
              "(-1: 5 %, at "
              "most 5000; 0: none, the test split is scored instead)")
      .integer("batch", &C::batch, 1, 65536, kFixed, "pictures a batch")
      .integer("eval_batch", &C::eval_batch, 1, 65536, kFree, "pictures a batch of evaluation")
      .integer("workers", &C::workers, 0, 256, kFree, "threads that prepare batches")
      .integer("repeats", &C::repeats, 1, 16, kFixed,
               "repeated augmentation: times a picture comes in a row")
      .integer("max_unreadable", &C::max_unreadable, 0, kMany, kFree,
               "unreadable pictures replaced before giving up")
      .choice("resize", &C::resize, {"crop", "squeeze"}, kFixed,
              "evaluation: centre crop, or squeeze to a square")
      .number("crop_ratio", &C::crop_ratio, 0.1, 1, kFixed, "evaluation: crop / short side")
      .choice("interpolation", &C::interpolation, {"bilinear", "bicubic"}, kFixed,
              "resampling filter");
}

void add_augment_fields(FieldTable<C>& t) {
  t.choice("crop", &C::crop, {"none", "pad", "random"}, kFixed,
           "training crop: none, pad and crop, random resized")
      .integer("crop_pad", &C::crop_pad, 0, 512, kFixed, "pixels a side for crop pad")
      .number("crop_min_scale", &C::crop_min_scale, 0.01, 1, kFixed, "smallest area of crop random")
      .flag("fast_decode", &C::fast_decode, kWarn,
            "with crop random, decode JPEGs at 1/2, 1/4 or 1/8 where the part has pixels to spare; "
            "pixels then differ slightly; evaluation always decodes whole")
      .number("flip", &C::flip, 0, 1, kFixed, "probability of a horizontal flip")
      .integer("randaugment", &C::randaugment, 0, 16, kFixed,
               "RandAugment operations a picture (0: off)")
      .number("randaugment_magnitude", &C::randaugment_magnitude, 0, 10, kFixed,
              "RandAugment strength")
      .number("randaugment_noise", &C::randaugment_noise, 0, 10, kFixed,
              "RandAugment spread of the strength")
      .number("color_jitter", &C::color_jitter, 0, 1, kFixed,
              "brightness, contrast, saturation by up to this")
      .number("erase", &C::erase, 0, 1, kFixed, "probability of random erasing")
      .number("mixup", &C::mixup, 0, 100, kFixed, "mixup alpha (0: off)")
      .number("cutmix", &C::cutmix, 0, 100, kFixed, "cutmix alpha (0: off)")
      .number("mix_probability", &C::mix_probability, 0, 1, kFixed,
              "share of batches that are mixed")
      .number("mix_switch", &C::mix_switch, 0, 1, kFixed, "share of mixed batches that take cutmix")
      .number("label_smoothing", &C::label_smoothing, 0, 0.99, kFixed, "label smoothing");
}

FieldTable<C> make_fields() {
  FieldTable<C> table;
  add_model_fields(table);
  add_data_fields(table);
  table.include(loop_fields()).include(epoch_fields());
  add_augment_fields(table);
  return table;
}

void check(const VisionTrainConfig& config) {
  check_loop_config(config);
  check_augment(augment_config(config));
  check_mix(mix_config(config));
  if (!config.mixer.empty()) check_mixer_name(config.mixer);
}

}  // namespace

const ConfigForm<VisionTrainConfig>& vision_train_form() {
  static const ConfigForm<VisionTrainConfig> form{make_fields(), vision_recipes(), check};
  return form;
}

DataSpec data_spec(const VisionTrainConfig& c) {
  return {.path = c.data,
          .format = c.data_format,
          .holdout = c.holdout,
          .seed = uint64_t(c.data_seed),
          .side = c.data_side,
          .train_size = c.train_size,
          .test_size = c.test_size};
}

AugmentConfig augment_config(const VisionTrainConfig& c) {
  AugmentConfig augment;
  augment.crop = c.crop;
  augment.pad = c.crop_pad;
  augment.min_scale = c.crop_min_scale;
  augment.interpolation = c.interpolation;
  augment.reduce = c.fast_decode;
  augment.flip = c.flip;
  augment.rand_augment = {c.randaugment, c.randaugment_magnitude, c.randaugment_noise};
  augment.color_jitter = c.color_jitter;
  augment.erase = c.erase;
  return augment;
}

MixConfig mix_config(const VisionTrainConfig& c) {
  return {c.mixup, c.cutmix, c.mix_probability, c.mix_switch, c.label_smoothing};
}

}  // namespace tost
