// Questions with several answers, as in the Children's Book Test: the answer whose text the model
// holds for the most probable.
#pragma once

#include <optional>

#include "tost/kinds/language/file.h"
#include "tost/kinds/language/scores.h"

namespace tost {

struct ChoiceResult {
  int64_t questions = 0;
  double accuracy = 0;
  double chance = 0;      // mean of 1 / number of choices
  int64_t shortened = 0;  // questions beyond the model's context, read without their beginning
  double seconds = 0;
};

// A row of the .jsonl file at `path` (or in the folder):
//   "text" (or "context", or "prompt")  with one blank, XXXXX or _____, that the choices fill;
//                                       without a blank a choice follows after a space
//   "choices"                           two or more different strings
//   "answer"                            one of them, or its number from 0
// A choice's score is the summed log-probability of the whole filled text but its first token; of
// equal scores the first wins. `limit`: the first questions alone, at least 1 (a usage Error).
// Deterministic. Nothing when `stop` ended it. Throws a data Error naming the line that breaks
// this.
std::optional<ChoiceResult> evaluate_choices(LoadedLanguage& language, const std::string& path,
                                             std::optional<int64_t> limit = std::nullopt,
                                             const LanguageEvalOptions& options = {});

nlohmann::json to_json(const ChoiceResult& result);

}  // namespace tost
