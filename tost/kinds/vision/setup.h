// From a configuration and the data to the description of the model that is to be trained.
#pragma once

#include "tost/kinds/vision/model_info.h"
#include "tost/kinds/vision/train_config.h"

namespace tost {

// Architecture: that of `from`, the description of config.from, or the preset where it is null;
// then classes, channels and side of the data, then mixer, image_size, drop_path, and model_options
// above all. Preprocessing: the data's own mean and deviation, or when fine-tuning with as many
// channels those the weights were trained with. Throws a usage Error with the reason where they do
// not fit.
ModelInfo make_model_info(const VisionTrainConfig& config, const ModelInfo* from,
                          const ImageDataset& train);

}  // namespace tost
