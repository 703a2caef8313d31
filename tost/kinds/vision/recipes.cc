// The named training recipes. Values of `imagenet` and `finetune` are those of the official scripts
// except where a comment says so; `small` and `photos` are ours.
#include "tost/kinds/vision/train_config.h"

namespace tost {
namespace {

// For pictures of 28 to 96 pixels and minutes on a few cores. In few epochs the network underfits,
// so flips are the only augmentation.
VisionTrainConfig small() {
  VisionTrainConfig c;
  c.recipe = "small";
  c.epochs = 5;
  c.batch = 64;
  c.lr = 2e-3;
  c.min_lr = 1e-5;
  c.warmup_lr = 1e-5;
  c.warmup_epochs = 0.5;  // shorter ones and twice the rate leave some seeds at chance
  c.weight_decay = 0.05;
  c.clip = 1.0;
  c.crop = "none";
  return c;
}

// For some 50,000 photographs of 32 pixels and half an hour on two cores; --minutes fits the steps.
VisionTrainConfig photos() {
  VisionTrainConfig c = small();
  c.recipe = "photos";
  c.model = "tost_means_photo_p4";
  c.epochs = 20;
  c.batch = 128;
  c.lr = 1e-3;  // on 3,068 photographs 2e-3 learns less, and 3e-3 nothing
  c.warmup_epochs = 1;
  c.precision = recipe_precision();
  c.crop = "pad";
  c.erase = 0.25;
  c.label_smoothing = 0.1;
  return c;
}

VisionTrainConfig imagenet() {
  VisionTrainConfig c;
  c.recipe = "imagenet";
  c.model = "tost_cab_small_12_p16";
  c.image_size = 224;
  c.epochs = 400;
  c.batch = 128;
  c.lr = 5e-4;
  c.lr_reference_batch = 512;
  c.min_lr = 1e-5;
  c.warmup_lr = 1e-6;
  c.warmup_epochs = 5;
  c.schedule = "epoch";
  c.schedule_lag = 1;
  c.weight_decay = 0.05;
  c.ema_decay = 0.99996;
  // Official: fp16 autocast with loss scaling, which the CPU does not offer.
  c.precision = recipe_precision();
  c.repeats = 3;
  c.crop = "random";
  c.randaugment = 2;
  c.randaugment_magnitude = 9;
  c.randaugment_noise = 0.5;
  c.color_jitter = 0.4;  // superseded by RandAugment
  c.erase = 0.25;
  c.mixup = 0.8;
  c.cutmix = 1.0;
  c.label_smoothing = 0.1;
  c.workers = 2;
  return c;
}

VisionTrainConfig finetune() {
  VisionTrainConfig c;
  c.recipe = "finetune";
  c.model = "tost_cab_small_12_p16";
  c.image_size = 224;
  c.drop_path = 0;
  c.epochs = 200;
  c.batch = 256;
  c.lr = 1e-4;
  c.schedule = "epoch";
  c.schedule_lag = 2;
  c.weight_decay = 0.01;
  c.decay_all = true;
  c.precision = recipe_precision();  // official: fp16 autocast
  c.crop = "random";
  c.randaugment = 2;
  c.randaugment_magnitude = 14.0 / 3;  // official: 14 on a scale that ends at 30, here at 10
  c.randaugment_noise = 0;
  c.resize = "squeeze";
  c.workers = 2;
  return c;
}

}  // namespace

std::vector<Recipe<VisionTrainConfig>> vision_recipes() {
  return {{"small", small}, {"photos", photos}, {"finetune", finetune}, {"imagenet", imagenet}};
}

}  // namespace tost
