// Scores a language model on texts, by LAMBADA and by questions with several answers.
#pragma once

#include <optional>

#include "tost/engine/language_file.h"
#include "tost/engine/language_scores.h"

namespace tost {

// LAMBADA (Paperno et al., 2016): predicts the last word of a passage from all earlier words.
struct LambadaOptions : LanguageEvalOptions {
  int64_t batch = 16;            // passages read together
  std::optional<int64_t> limit;  // only the first passages, at least 1; none: all
  bool generate = true;          // also the official code's accuracy
  int64_t new_tokens = 10;       // which that greedily makes
};

struct LambadaResult {
  int64_t passages = 0, tokens = 0;
  double loss = 0;            // mean over all tokens but each passage's first, nats
  double last_word_loss = 0;  // mean over passages of the last word's summed -log p, nats
  double accuracy = 0;        // share whose last word greedy decoding gives, every token of it
  std::optional<double> official_accuracy;
  int64_t shortened = 0;  // passages beyond the model's context, read without beginning
  double seconds = 0;
};

// `path` is a .jsonl file, or a folder with one, whose rows have a "text". The last word is the
// last space and the text after it; context and word are encoded separately. The official accuracy
// is the share of passages whose word is in `new_tokens` greedy tokens after the context, both in
// lower case. Returns nothing if `stop` ended it. Throws a data Error naming the line of a passage
// that has no space or cannot be encoded.
std::optional<LambadaResult> evaluate_lambada(TextModel& model, const LanguageInfo& info,
                                              const std::string& path,
                                              const LambadaOptions& options = {});

nlohmann::json to_json(const LambadaResult& result);

// Questions with several answers, as in the Children's Book Test: the answer of the model is the
// choice whose text is most probable.
struct ChoiceResult {
  int64_t questions = 0;
  double accuracy = 0;
  double chance = 0;      // mean of 1 / number of choices
  int64_t shortened = 0;  // questions beyond the model's context, read without their beginning
  double seconds = 0;
};

// A row of the .jsonl file at `path`, or in the folder `path`:
//   "text" (or "context", or "prompt")  with one blank, XXXXX or _____, that the choices fill;
//                                       without a blank a choice follows after a space
//   "choices"                           two or more different strings
//   "answer"                            one of them, or its number from 0
// The score of a choice is the summed log-probability of the filled text without its first token;
// of equal scores the first wins. `limit` is the number of questions, at least 1. Returns nothing
// if `stop` ended it. Throws a data Error naming a wrong line.
std::optional<ChoiceResult> evaluate_choices(TextModel& model, const LanguageInfo& info,
                                             const std::string& path,
                                             std::optional<int64_t> limit = std::nullopt,
                                             const LanguageEvalOptions& options = {});

nlohmann::json to_json(const ChoiceResult& result);

}  // namespace tost
