// What a language model must pass before it is timed. Both checks set LayerScale to 1 and switch
// dropout off meanwhile: at its usual start of 1e-5 no result would show the mixers beyond
// rounding.
#pragma once

#include <functional>
#include <string>

#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// The loss of ids and targets, both [B, T] int64.
using LossOf = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;

// Throws a data Error unless `other`, which computes on the weights of `model`, gives the loss of
// `model` on random ids. Precision as in PrecisionScope, on the model's device.
void check_same_loss(LanguageModel& model, const LossOf& other, Precision precision);

// Throws a data Error that names `name` unless the logits after random ids read one by one are
// those after all at once. `precision` is that of the engine the model is read by, if any.
void check_steps(LanguageModel& model, const std::string& name,
                 Precision precision = Precision::kFp32);

}  // namespace tost
