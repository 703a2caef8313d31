// A causal language model as an ONNX graph that continues from a state.
#pragma once

#include "tost/kinds/language/model.h"
#include "tost/store/onnx_builder.h"

namespace tost {

// Inputs "ids" [batch, tokens] int64, "position" [] int64 (the tokens read before), and the state
// of each block, "state_1_sums" and so on, zeros at the beginning; outputs "logits" [batch, tokens,
// vocab] and every state after the last token under the same name with "new_" before it. Any batch
// and number of tokens. The state keeps its size. Throws a usage Error for mixers whose state grows
// or that have no such graph (tssa and means have one).
OnnxGraph language_onnx(LanguageModel& model);

}  // namespace tost
