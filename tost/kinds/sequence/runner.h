// Sequences to logits at a precision, by the inference engine or by the module itself.
#pragma once

#include <optional>

#include "tost/data/sequence_batch.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/engine.h"
#include "tost/torch.h"

namespace tost {

class SequenceRunner {
 public:
  // `model` is in evaluation mode and outlives the runner. `engine`: through SequenceEngine where
  // it supports the model. precision: fp32, bf16 or, by the engine alone, int8; throws a usage
  // Error for other names and for int8 without the engine.
  SequenceRunner(SequenceClassifier& model, Precision precision, bool engine);

  SequenceRunner(const SequenceRunner&) = delete;
  SequenceRunner& operator=(const SequenceRunner&) = delete;

  // Logits [B, classes] on the CPU, without gradients, of single sequences or of pairs.
  torch::Tensor logits(const SequenceBatch& batch);

  bool by_engine() const { return engine_.has_value(); }

 private:
  SequenceClassifier& model_;
  Precision precision_;
  std::optional<SequenceEngine> engine_;
};

}  // namespace tost
