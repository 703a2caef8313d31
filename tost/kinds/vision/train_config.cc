// The checks of settings, and the named recipes. Values of `imagenet` and `finetune` are those of
// the official scripts, unless a comment notes a difference; `small` and `photos` are ours.
#include "tost/kinds/vision/train_config.h"

#include "tost/kernels/products/tile_rows.h"
#include "tost/kinds/vision/config.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace {

using enum OnResume;
using V = VisionTrainConfig;

constexpr int64_t kMany = int64_t{1} << 40;

std::string stored_picture_data(const std::string& data) {
  return data == "shapes" ? data : absolute_where_found(data);
}

void add_vision_data_fields(FieldTable<V>& t) {
  t.text("data", &V::data, kWarn, "data folder, or shapes (generated)", stored_picture_data)
      .choice("data_format", &V::data_format, image_formats(), kFixed, "format of the data")
      .integer("data_seed", &V::data_seed, 0, kMany, kFixed, "seed of generated data")
      .integer("data_side", &V::data_side, 8, 1024, kFixed, "side of generated pictures")
      .integer("train_size", &V::train_size, 1, 10'000'000, kFixed, "generated training pictures")
      .integer("test_size", &V::test_size, 1, 10'000'000, kFixed, "generated test pictures")
      .number("holdout", &V::holdout, -1, 0.9, kFixed,
              "share of the training pictures kept for validation where the data has no such split "
              "(-1: 5 %, at "
              "most 5000; 0: none, the test split is scored instead)")
      .integer("batch", &V::batch, 1, 65536, kFixed, "pictures a batch")
      .integer("eval_batch", &V::eval_batch, 1, 65536, kFree, "pictures a batch of evaluation")
      .integer("workers", &V::workers, 0, 256, kFree, "threads that prepare batches")
      .integer("repeats", &V::repeats, 1, 16, kFixed,
               "repeated augmentation: times a picture comes in a row")
      .integer("max_unreadable", &V::max_unreadable, 0, kMany, kFree,
               "unreadable pictures replaced before giving up")
      .choice("resize", &V::resize, {"crop", "squeeze"}, kFixed,
              "evaluation: centre crop, or squeeze to a square")
      .number("crop_ratio", &V::crop_ratio, 0.1, 1, kFixed, "evaluation: crop / short side")
      .choice("interpolation", &V::interpolation, {"bilinear", "bicubic"}, kFixed,
              "resampling filter");
}

void add_augment_fields(FieldTable<V>& t) {
  t.choice("crop", &V::crop, {"none", "pad", "random"}, kFixed,
           "training crop: none, pad and crop, random resized")
      .integer("crop_pad", &V::crop_pad, 0, 512, kFixed, "pixels a side for crop pad")
      .number("crop_min_scale", &V::crop_min_scale, 0.01, 1, kFixed, "smallest area of crop random")
      .number("flip", &V::flip, 0, 1, kFixed, "probability of a horizontal flip")
      .integer("randaugment", &V::randaugment, 0, 16, kFixed,
               "RandAugment operations a picture (0: off)")
      .number("randaugment_magnitude", &V::randaugment_magnitude, 0, 10, kFixed,
              "RandAugment strength")
      .number("randaugment_noise", &V::randaugment_noise, 0, 10, kFixed,
              "RandAugment spread of the strength")
      .number("color_jitter", &V::color_jitter, 0, 1, kFixed,
              "brightness, contrast, saturation by up to this")
      .number("erase", &V::erase, 0, 1, kFixed, "probability of random erasing")
      .number("mixup", &V::mixup, 0, 100, kFixed, "mixup alpha (0: off)")
      .number("cutmix", &V::cutmix, 0, 100, kFixed, "cutmix alpha (0: off)")
      .number("mix_probability", &V::mix_probability, 0, 1, kFixed,
              "share of batches that are mixed")
      .number("mix_switch", &V::mix_switch, 0, 1, kFixed, "share of mixed batches that take cutmix")
      .number("label_smoothing", &V::label_smoothing, 0, 0.99, kFixed, "label smoothing");
}

FieldTable<V> make_vision_fields() {
  auto table = model_fields<V>(names_of(vision_recipes()), vision_preset_names(), mixer_in_use);
  table
      .integer("image_size", &V::image_size, 0, 4096, kFixed,
               "input side in pixels (0: the data's)")
      .number("drop_path", &V::drop_path, -1, 0.99, kFixed, "stochastic depth (-1: the preset's)");
  add_vision_data_fields(table);
  table.include(loop_fields()).include(epoch_fields());
  add_augment_fields(table);
  return table;
}

void check_vision(const VisionTrainConfig& config) {
  check_loop_config(config);
  check_augment(augment_config(config));
  check_mix(mix_config(config));
  if (!config.mixer.empty()) check_mixer_name(config.mixer);
}

}  // namespace

const ConfigForm<VisionTrainConfig>& vision_train_form() {
  static const ConfigForm<V> form{make_vision_fields(), vision_recipes(), check_vision,
                                  shorthand_fields({{"mlp", kMlpHelp}}, {{"mlp", "gelu"}})};
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
  return {.crop = c.crop,
          .pad = c.crop_pad,
          .min_scale = c.crop_min_scale,
          .interpolation = c.interpolation,
          .flip = c.flip,
          .rand_augment = {c.randaugment, c.randaugment_magnitude, c.randaugment_noise},
          .color_jitter = c.color_jitter,
          .erase = c.erase};
}

MixConfig mix_config(const VisionTrainConfig& c) {
  return {c.mixup, c.cutmix, c.mix_probability, c.mix_switch, c.label_smoothing};
}

namespace {

using nlohmann::json;

// The recipe for pictures of 28 to 96 pixels and minutes on a few cores. In few epochs the network
// underfits, so flips are the only augmentation. A shorter warm-up, or twice the rate, leaves some
// seeds at chance.
json small() {
  return {{"epochs", 5},          {"batch", 64},       {"lr", 2e-3},
          {"min_lr", 1e-5},       {"warmup_lr", 1e-5}, {"warmup_epochs", 0.5},
          {"weight_decay", 0.05}, {"clip", 1.0},       {"crop", "none"}};
}

// The recipe for some 50,000 photographs of 32 pixels and half an hour on two cores.
json photos() {
  const json changes{{"model", "tost_means_photo_p4"},
                     {"epochs", 20},
                     {"warmup_epochs", 1},
                     {"optimizer", "muon"},
                     // Without tile units, convolutions are slower in bf16.
                     {"precision", kernels::has_tiles() ? "bf16" : "fp32"},
                     {"crop", "pad"},
                     {"label_smoothing", 0.1}};
  return merge(small(), changes);
}

json imagenet() {
  return {{"model", "tost_cab_small_12_p16"},
          {"image_size", 224},
          {"epochs", 400},
          {"batch", 128},
          {"lr", 5e-4},
          {"lr_reference_batch", 512},
          {"min_lr", 1e-5},
          {"warmup_lr", 1e-6},
          {"warmup_epochs", 5},
          {"schedule", "epoch"},
          {"schedule_lag", 1},
          {"weight_decay", 0.05},
          {"ema_decay", 0.99996},
          // Official: fp16 autocast with loss scaling, which the CPU does not offer.
          {"precision", recipe_precision()},
          {"repeats", 3},
          {"crop", "random"},
          {"randaugment", 2},
          {"randaugment_magnitude", 9},
          {"randaugment_noise", 0.5},
          {"color_jitter", 0.4},  // superseded by RandAugment
          {"erase", 0.25},
          {"mixup", 0.8},
          {"cutmix", 1.0},
          {"label_smoothing", 0.1},
          {"workers", 2}};
}

json finetune() {
  return {{"model", "tost_cab_small_12_p16"},
          {"image_size", 224},
          {"drop_path", 0},
          {"epochs", 200},
          {"batch", 256},
          {"lr", 1e-4},
          {"schedule", "epoch"},
          {"schedule_lag", 2},
          {"weight_decay", 0.01},
          {"decay_all", true},
          {"precision", recipe_precision()},  // official: fp16 autocast
          {"crop", "random"},
          {"randaugment", 2},
          // Official: 14 on a scale that ends at 30, here at 10.
          {"randaugment_magnitude", 14.0 / 3},
          {"randaugment_noise", 0},
          {"resize", "squeeze"},
          {"workers", 2}};
}

}  // namespace

std::vector<Recipe<VisionTrainConfig>> vision_recipes() {
  return {
      {"small", small()}, {"photos", photos()}, {"finetune", finetune()}, {"imagenet", imagenet()}};
}

}  // namespace tost
