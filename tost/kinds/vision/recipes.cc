// The named training recipes. Values of `imagenet` and `finetune` are those of the official
// scripts, unless a comment notes a difference; `small` and `photos` are ours.
#include "tost/kinds/vision/train_config.h"

namespace tost {
namespace {

using nlohmann::json;

// The recipe for pictures of 28 to 96 pixels and minutes on a few cores. In few epochs the network
// underfits, so flips are the only augmentation.
json small() {
  return {{"epochs", 5},
          {"batch", 64},
          {"lr", 2e-3},
          {"min_lr", 1e-5},
          {"warmup_lr", 1e-5},
          {"warmup_epochs", 0.5},  // shorter ones and twice the rate leave
                                   // some seeds at chance
          {"weight_decay", 0.05},
          {"clip", 1.0},
          {"crop", "none"}};
}

// The recipe for some 50,000 photographs of 32 pixels and half an hour on two cores.
json photos() {
  const json changes{{"model", "tost_means_photo_p4"},
                     {"epochs", 20},
                     {"batch", 128},
                     // On 3,068 photographs 2e-3 learns less, and 3e-3 nothing.
                     {"lr", 1e-3},
                     {"warmup_epochs", 1},
                     {"precision", recipe_precision()},
                     {"crop", "pad"},
                     {"erase", 0.25},
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
