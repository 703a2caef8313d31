#include "tost/kinds/language/choice.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/rows.h"
#include "tost/kinds/language/tokenizer.h"
#include "tost/nn/evaluation_mode.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

struct Question {
  std::string before, after;  // of the blank
  std::vector<std::string> choices;
  size_t answer = 0;
};

std::string text_of(const JsonRow& row) {
  std::string text;
  int found = 0;
  for (const char* key : {"text", "context", "prompt"}) {
    if (!row.object.contains(key)) continue;
    text = string_of(row, key);
    ++found;
  }
  if (found != 1) fail_data(row.where, " needs one of \"text\", \"context\" and \"prompt\".");
  return text;
}

void cut_at_blank(const JsonRow& row, Question& question) {
  const std::string text = text_of(row);
  question.before = text + " ";  // without a blank
  bool found = false;
  for (const std::string blank : {"XXXXX", "_____"}) {
    const size_t at = text.find(blank);
    if (at == text.npos) continue;
    if (found || text.find(blank, at + 1) != text.npos) {
      fail_data(row.where, " has more than one blank (XXXXX or _____ of five signs).");
    }
    found = true;
    question.before = text.substr(0, at);
    question.after = text.substr(at + blank.size());
  }
}

size_t answer_of(const JsonRow& row, const std::vector<std::string>& choices) {
  const auto answer = row.object.find("answer");
  if (answer != row.object.end() && answer->is_number_unsigned() &&
      answer->get<uint64_t>() < choices.size()) {
    return answer->get<size_t>();
  }
  if (answer != row.object.end() && answer->is_string()) {
    const auto found = std::find(choices.begin(), choices.end(), answer->get<std::string>());
    if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  }
  fail_data(row.where, " needs an \"answer\": one of its choices, or its number from 0 to ",
            choices.size() - 1, ".");
}

Question make_question(const JsonRow& row) {
  Question question;
  cut_at_blank(row, question);
  const auto choices = row.object.find("choices");
  const bool strings = choices != row.object.end() && choices->is_array() &&
                       std::all_of(choices->begin(), choices->end(), [](const nlohmann::json& c) {
                         return c.is_string() && !c.get_ref<const std::string&>().empty();
                       });
  if (strings) question.choices = choices->get<std::vector<std::string>>();
  const std::set<std::string> different(question.choices.begin(), question.choices.end());
  if (different.size() < 2 || different.size() != question.choices.size()) {
    fail_data(row.where, " needs \"choices\": two or more different strings.");
  }
  question.answer = answer_of(row, question.choices);
  return question;
}

// The texts with each choice filled in, all but their first token to be scored.
std::vector<ScoredText> fill_in(const Question& question, const Tokenizer& tokenizer,
                                const std::string& where) {
  std::vector<ScoredText> texts;
  for (const std::string& choice : question.choices) {
    std::vector<int32_t> ids;
    try {
      ids = tokenizer.encode(question.before + choice + question.after);
    } catch (const Error& error) {
      throw Error(error.kind(), cat(where, ": ", error.what()));
    }
    if (ids.size() < 2) fail_data(where, " has fewer than two tokens with '", choice, "'.");
    texts.push_back({{ids.begin(), ids.end()}, static_cast<int64_t>(ids.size()) - 1});
  }
  return texts;
}

// Takes the same number of tokens off the beginning of all, so that their sums can be compared.
// Whether there was need to.
bool shorten(int64_t context, const std::string& where, std::vector<ScoredText>& texts) {
  int64_t longest = 0;
  for (const ScoredText& text : texts) longest = std::max(longest, text.targets);
  if (longest <= context) return false;
  for (ScoredText& text : texts) {
    const int64_t lost = longest - context;
    if (text.targets <= lost) fail_data(where, " has choices too long for the model's context.");
    text.targets -= lost;
    text.ids.erase(text.ids.begin(), text.ids.begin() + lost);
  }
  return true;
}

size_t most_probable(LanguageModel& model, const std::vector<ScoredText>& texts) {
  std::vector<double> losses;
  for (const TokenScores& scores : score_texts(model, texts)) {
    losses.push_back(scores.loss.to(torch::kDouble).sum().item<double>());
  }
  return static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

}  // namespace

std::optional<ChoiceResult> evaluate_choices(LoadedLanguage& language, const std::string& path,
                                             std::optional<int64_t> limit,
                                             const LanguageEvalOptions& options) {
  needed_tokenizer(language.info, "questions cannot be read");
  if (limit.value_or(1) < 1) fail_usage("There must be at least one question to answer.");
  const auto start = Clock::now();
  std::vector<JsonRow> rows = read_rows(find_rows_file(path));
  if (limit && *limit < static_cast<int64_t>(rows.size())) {
    rows.resize(static_cast<size_t>(*limit));
  }
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(*language.model);
  const PrecisionScope precision(options.precision, device_of(*language.model));
  ChoiceResult result;
  int64_t right = 0;
  for (const JsonRow& row : rows) {
    const Question question = make_question(row);
    std::vector<ScoredText> texts = fill_in(question, *language.info.tokenizer, row.where);
    result.shortened += shorten(language.model->max_context(), row.where, texts);
    right += most_probable(*language.model, texts) == question.answer;
    result.chance += 1.0 / static_cast<double>(texts.size());
    ++result.questions;
    if (options.progress) options.progress(result.questions, static_cast<int64_t>(rows.size()));
    if (options.stop != nullptr && options.stop->load()) return std::nullopt;
  }
  result.accuracy = static_cast<double>(right) / static_cast<double>(result.questions);
  result.chance /= static_cast<double>(result.questions);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

nlohmann::json to_json(const ChoiceResult& r) {
  return TOST_MEMBERS(r, questions, accuracy, chance, shortened, seconds);
}

}  // namespace tost
