#include "tost/kinds/sequence/runner.h"

#include "tost/base/error.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"

namespace tost {

SequenceRunner::SequenceRunner(SequenceClassifier& model, Precision precision, bool engine)
    : model_(model), precision_(precision) {
  if (engine && SequenceEngine::supports(model)) {
    engine_.emplace(model, precision);
  } else if (facts_of(precision).packing && !facts_of(precision).modules) {
    fail_usage(precision, " needs the inference engine, which ",
               engine ? "runs float32 models on the CPU" : "is switched off",
               "; use fp32 or bf16.");
  } else {
    const PrecisionScope known(precision);
  }
}

torch::Tensor SequenceRunner::logits(const SequenceBatch& batch) {
  if (!engine_) {
    const torch::InferenceMode no_grad;
    const PrecisionScope scope(precision_, device_of(model_));
    return forward_batch(model_, batch).to(torch::kCPU);
  }
  const SequenceInput first{batch.ids, batch.lengths};
  if (!batch.second.defined()) return engine_->forward(first);
  return engine_->forward(first, {batch.second, batch.second_lengths});
}

}  // namespace tost
