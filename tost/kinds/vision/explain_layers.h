// The parts of an image classifier that a report measures with, by layer.
#pragma once

#include <memory>
#include <vector>

#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/block.h"

namespace tost {

// First to last; empty for a model without blocks.
std::vector<std::shared_ptr<Block>> blocks_of(const ImageClassifier& model);

}  // namespace tost
