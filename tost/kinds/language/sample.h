// Short samples of a model in training, for people to look at.
#pragma once

#include <cstdint>
#include <string>

#include "tost/kinds/language/file.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/language/train_config.h"

namespace tost {

struct SampleRequest {
  std::string prompt;
  int64_t tokens = 0;
  double temperature = 1;  // 0: always the most likely token
  uint64_t seed = 0, stream = 0;
};

// The prompt and what the model writes after it, as valid UTF-8. A pure function of model and
// request; torch's generators are left alone. Beyond max_context() the model continues from the
// last half of it.
std::string sample_text(LanguageModel& model, const Tokenizer& tokenizer,
                        const SampleRequest& request);

// Throws a usage Error where the configuration's samples cannot be made: no tokenizer, or a prompt
// that is empty or cannot be expressed.
void check_sample(const LanguageInfo& info, const LanguageTrainConfig& config);

}  // namespace tost
