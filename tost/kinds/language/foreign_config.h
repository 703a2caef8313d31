// The architecture of language models that others have saved (store/foreign_model.h). Free of
// torch.
#pragma once

#include "tost/kinds/language/config.h"
#include "tost/store/foreign_model.h"

namespace tost {

// Heads come from the weights, else from the facts. To be checked by validate(). Throws a data
// Error that says what the file does not tell.
LanguageConfig foreign_language_config(const ForeignModel& weights, const ModelFacts& facts);

// Whether matrices lie the other way round, as in Hugging Face's GPT-2.
bool is_transposed_gpt2(const ForeignModel& weights);

}  // namespace tost
