// The settings of training an image classifier, and their JSON form: an object whose keys are the
// flags of `tost train` with underscores for dashes.
#pragma once

#include <string>
#include <vector>

#include "tost/data/loader.h"
#include "tost/io/dataset.h"
#include "tost/train/config_form.h"
#include "tost/train/loop_config.h"

namespace tost {

struct VisionTrainConfig : LoopConfig {
  std::string recipe = "small";

  std::string model = "tost_nano_p4";
  std::string from;   // a model file to fine-tune; its architecture then replaces `model`
  std::string mixer;  // "": the preset's
  int64_t image_size =
      0;  // 0: the data's side where it has one and the patch divides it, else the preset's
  double drop_path = -1;                                    // -1: the preset's
  nlohmann::json model_options = nlohmann::json::object();  // further fields of VisionConfig

  std::string data = "shapes";
  std::string data_format = "auto";
  int64_t data_seed = 0;
  int64_t data_side = 32;
  int64_t train_size = 10'000;
  int64_t test_size = 2'000;
  double holdout = -1;

  int64_t batch = 64;
  int64_t eval_batch = 200;
  int64_t workers = 1;
  int64_t repeats = 1;
  int64_t max_unreadable = 100;
  std::string resize = "crop";
  double crop_ratio = 1;
  std::string interpolation = "bicubic";

  std::string crop = "pad";
  int64_t crop_pad = 4;
  double crop_min_scale = 0.08;
  double flip = 0.5;
  int64_t randaugment = 0;
  double randaugment_magnitude = 9;
  double randaugment_noise = 0.5;
  double color_jitter = 0;
  double erase = 0;
  double mixup = 0;
  double cutmix = 0;
  double mix_probability = 1;
  double mix_switch = 0.5;
  double label_smoothing = 0;
};

// The recipes are small, photos, finetune and imagenet.
const ConfigForm<VisionTrainConfig>& vision_train_form();
std::vector<Recipe<VisionTrainConfig>> vision_recipes();

DataSpec data_spec(const VisionTrainConfig& config);
AugmentConfig augment_config(const VisionTrainConfig& config);
MixConfig mix_config(const VisionTrainConfig& config);

}  // namespace tost
