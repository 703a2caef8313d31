#include "tost/kinds/vision/explain_layers.h"

#include "tost/kinds/vision/transformer.h"

namespace tost {

std::vector<std::shared_ptr<Block>> blocks_of(const ImageClassifier& model) {
  std::vector<std::shared_ptr<Block>> blocks;
  if (const auto* transformer = dynamic_cast<const VisionTransformer*>(&model)) {
    for (const auto& module : *transformer->blocks) {
      blocks.push_back(std::dynamic_pointer_cast<Block>(module));
    }
  }
  return blocks;
}

}  // namespace tost
