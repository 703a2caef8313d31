// Labels for texts by a classifier of sequences.
#pragma once

#include <string>
#include <vector>

#include "tost/kinds/sequence/file.h"
#include "tost/nn/prediction.h"

namespace tost {

// The tokens of a text as the model's data was cut: bytes, or the symbols of a ListOps expression;
// at most info.cut of them. Throws a usage Error for a text that holds none or cannot be cut, and
// for a model of pictures.
std::vector<int32_t> encode_text(const SequenceInfo& info, const std::string& text);

// A text, and of a model of pairs the other document.
struct SequenceText {
  std::string text, second = "";
};

// One prediction a text, in order; its path is the text. `model` is in evaluation mode. Throws as
// encode_text(), and a usage Error for top_k < 1 and for pairs where the model reads none.
std::vector<Prediction> predict_texts(SequenceClassifier& model, const SequenceInfo& info,
                                      const std::vector<SequenceText>& texts,
                                      const PredictOptions& options = {});

}  // namespace tost
