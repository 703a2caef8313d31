// Labels for image files.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/vision/model_file.h"
#include "tost/nn/prediction.h"

namespace tost {

// One prediction a path, in order. `model` is in evaluation mode. Throws a data Error naming the
// first image that cannot be read, a usage Error for top_k < 1 or no paths.
std::vector<Prediction> predict_images(ImageClassifier& model, const ModelInfo& info,
                                       const std::vector<std::string>& paths,
                                       const PredictOptions& options = {});

}  // namespace tost
