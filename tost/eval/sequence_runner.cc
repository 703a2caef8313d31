#include "tost/eval/sequence_runner.h"

#include "tost/base/error.h"
#include "tost/eval/precision.h"
#include "tost/eval/sequence_eval.h"
#include "tost/models/module_device.h"

namespace tost {

SequenceRunner::SequenceRunner(SequenceClassifier& model, const std::string& precision, bool engine)
    : model_(model), precision_(precision) {
  if (engine && SequenceEngine::supports(model)) {
    engine_.emplace(model, precision);
  } else if (precision == "int8") {
    fail_usage("int8 needs the inference engine, which ",
               engine ? "runs float32 models on the CPU" : "is switched off",
               "; use fp32 or bf16.");
  } else {
    const PrecisionScope known(precision);
  }
}

torch::Tensor SequenceRunner::logits(const SequenceBatch& batch) {
  if (!engine_) {
    const torch::InferenceMode no_grad;
    const PrecisionScope precision(precision_, device_of(model_));
    return forward_batch(model_, batch).to(torch::kCPU);
  }
  const SequenceInput first{batch.ids, batch.lengths};
  if (!batch.second.defined()) return engine_->forward(first);
  return engine_->forward(first, {batch.second, batch.second_lengths});
}

}  // namespace tost
