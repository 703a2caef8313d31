// Classification of sequences without autograd, at the speed of the matrix units: weights laid out
// once, no padding, tiles of tokens carried through a whole block while they are in cache.
//
// Short sequences go in groups. Where there are at least as many groups as threads, each thread
// carries its own through all blocks; groups that are left over, and long ones, are spread over the
// threads tile by tile.
#pragma once

#include <memory>

#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

class SequenceEngine {
 public:
  // Whether an engine can stand in for this model: float32 weights on the CPU. tssa and none run in
  // the engine itself; other mixers are called as modules, on padded tokens, between its phases.
  static bool supports(const SequenceClassifier& model);

  // Copies the weights, so that later changes of the model do not reach the engine (a mixer other
  // than tssa and none is shared). precision: fp32, bf16 or int8; what the CPU lacks is computed in
  // float32 on the same rounded weights and tokens. Throws a usage Error for others and for
  // models it does not support, a data Error naming the tensor where weights that are not finite
  // would become integers.
  SequenceEngine(const SequenceClassifier& model, Precision precision);
  ~SequenceEngine();
  SequenceEngine(const SequenceEngine&) = delete;
  SequenceEngine& operator=(const SequenceEngine&) = delete;

  // As SequenceClassifier::forward(), with its Errors: logits [B, classes] float32, those of the
  // model in evaluation mode; fp32 within 1e-4 of the largest logit, bf16 as close as autocast,
  // int8 as near as 8 bits allow. Threads are those of torch and change no bit, nor does padding,
  // of models whose mixers run in the engine. After the first call with a batch as large
  // and sequences as long these allocate nothing but the result; float32 microkernels take a few
  // bytes of their own. Not for use by several threads at once.
  torch::Tensor forward(const SequenceInput& input);
  torch::Tensor forward(const SequenceInput& first, const SequenceInput& second);

  Precision precision() const { return precision_; }

 private:
  class Run;

  Precision precision_;
  std::unique_ptr<Run> run_;
};

}  // namespace tost
