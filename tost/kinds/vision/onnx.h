// An image classifier as an ONNX graph.
#pragma once

#include "tost/kinds/vision/image_classifier.h"
#include "tost/store/onnx_builder.h"

namespace tost {

// Input "images" [batch, channels, side, side], prepared as the model's file says; output "logits"
// [batch, classes], and with `memberships` "membership_1", … [batch, heads, tokens], one a block
// that has them. The side is the configuration's. Throws a usage Error for architectures and mixers
// without such a graph (tssa, uniform, none and softmax have one).
OnnxGraph vision_onnx(ImageClassifier& model, bool memberships);

}  // namespace tost
