// A loaded language model put where it is to run.
#pragma once

#include <memory>

#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

// On the CPU the inference engine reads it at that precision; an auto-encoder is read by its
// modules, in fp32. On a GPU it is moved there and its modules run at fp32 or bf16, see
// scope_precision(). Throws a usage Error for other precisions.
void place_language(const std::shared_ptr<LanguageModel>& model, Precision precision,
                    torch::Device device);

// What it can be placed with: on the CPU every precision, on a GPU those of modules.
Precisions language_precisions(torch::Device device);

// The PrecisionScope its calls stand in: autocast on a GPU, none where the engine sees to it.
Precision scope_precision(Precision precision, torch::Device device);

}  // namespace tost
