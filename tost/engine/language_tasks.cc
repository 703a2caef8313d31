#include "tost/engine/language_tasks.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <span>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/language_text.h"
#include "tost/io/parse_json.h"

namespace tost {

namespace {

using Clock = std::chrono::steady_clock;

struct Passage {
  std::vector<int64_t> ids;
  int64_t context = 0;  // tokens before the last word
  std::string target;   // the last word in lower case, without the space
};
using Passages = std::vector<Passage>;

Passage make_passage(const JsonRow& row, const Tokenizer& tokenizer) {
  const std::string text = string_of(row, "text");
  const size_t space = text.rfind(' ');
  if (space == text.npos || space == 0 || space + 1 == text.size()) {
    fail_data(row.where, " has no last word: a space with text on both sides is expected.");
  }
  Passage passage;
  const auto before = tokenizer.encode(std::string_view(text).substr(0, space), row.where);
  const auto word = tokenizer.encode(std::string_view(text).substr(space), row.where);
  passage.ids.assign(before.begin(), before.end());
  passage.ids.insert(passage.ids.end(), word.begin(), word.end());
  passage.context = std::ssize(before);
  passage.target = to_lower(std::string_view(text).substr(space + 1));
  if (passage.context == 0 || passage.context == static_cast<int64_t>(passage.ids.size())) {
    fail_data(row.where, " has a context or a last word without tokens.");
  }
  return passage;
}

Passages read_passages(const std::string& path, const TextModel& model, const LanguageInfo& info,
                       std::optional<int64_t> limit) {
  const int64_t most = max_context(model.config());
  Passages passages;
  for (const JsonRow& row : read_rows(find_rows_file(path))) {
    if (limit && static_cast<int64_t>(passages.size()) >= *limit) break;
    passages.push_back(make_passage(row, *info.tokenizer));
    const Passage& last = passages.back();
    if (const auto word = static_cast<int64_t>(last.ids.size()) - last.context; word > most) {
      fail_data(row.where, " has a last word of ", word, " tokens, beyond the model's context of ",
                most, ".");
    }
  }
  // Sorts passages by length, so that contexts that are read together have similar lengths.
  std::stable_sort(passages.begin(), passages.end(),
                   [](const Passage& a, const Passage& b) { return a.context < b.context; });
  return passages;
}

// The running sums over passages.
class Evaluation {
 public:
  Evaluation(TextModel& model, const Tokenizer& tokenizer, const LambadaOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  void add(std::span<const Passage> batch) {
    score(batch);
    result_.passages += static_cast<int64_t>(batch.size());
    while (options_.generate && !batch.empty()) {
      const auto other = std::find_if(batch.begin(), batch.end(), [&](const Passage& passage) {
        return passage.context != batch.front().context;
      });
      const auto same = static_cast<size_t>(other - batch.begin());
      generate(batch.first(same));
      batch = batch.subspan(same);
    }
  }

  int64_t passages() const { return result_.passages; }

  LambadaResult finish() const {
    LambadaResult result = result_;
    const auto count = static_cast<double>(result.passages);
    result.loss = loss_ / static_cast<double>(result.tokens);
    result.last_word_loss = word_loss_ / count;
    result.accuracy = static_cast<double>(right_) / count;
    if (options_.generate) result.official_accuracy = static_cast<double>(found_) / count;
    return result;
  }

 private:
  void score(std::span<const Passage> batch) {
    std::vector<ScoredText> texts;
    for (const Passage& passage : batch) {
      const auto predictions = static_cast<int64_t>(passage.ids.size()) - 1;
      const int64_t fitting = std::min(predictions, max_context(model_.config()));
      result_.shortened += fitting < predictions;
      texts.push_back({passage.ids, fitting});
    }
    const std::vector<TokenScores> scores = score_texts(model_, texts);
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto word = static_cast<int64_t>(batch[i].ids.size()) - batch[i].context;
      const int64_t begin = std::max<int64_t>(0, texts[i].targets - word);
      const auto& [loss, likely] = scores[i];
      loss_ += std::accumulate(loss.begin(), loss.end(), 0.0);
      word_loss_ += std::accumulate(loss.begin() + begin, loss.end(), 0.0);
      right_ += std::find(likely.begin() + begin, likely.end(), 0) == likely.end();
      result_.tokens += texts[i].targets;
    }
  }

  // Continues together the contexts that have the same length.
  void generate(std::span<const Passage> group) {
    const int64_t room = max_context(model_.config()) - (options_.new_tokens - 1);
    if (room < 1) {
      fail_usage("The model's context of ", max_context(model_.config()), " tokens does not hold ",
                 options_.new_tokens, " new ones.");
    }
    const int64_t length = std::min(room, group.front().context);
    std::vector<int64_t> contexts;
    for (const Passage& passage : group) {
      const auto end = passage.ids.begin() + passage.context;
      contexts.insert(contexts.end(), end - length, end);
    }
    const std::vector<std::string> texts = continue_greedily(std::move(contexts), group.size());
    for (size_t row = 0; row < group.size(); ++row) {
      found_ += to_lower(texts[row]).find(group[row].target) != std::string::npos;
    }
  }

  // Continues contexts [rows, length].
  std::vector<std::string> continue_greedily(std::vector<int64_t> next, size_t rows) {
    std::vector<std::string> texts(rows);
    LanguageState state;
    for (int64_t step = 0; step < options_.new_tokens; ++step) {
      const int64_t vocab = model_.config().vocab;
      const Array logits = model_.extend(next.data(), std::ssize(texts),
                                         std::ssize(next) / std::ssize(texts), state);
      next.resize(rows);
      for (size_t row = 0; row < rows; ++row) {
        const float* of_row = logits.data() + int64_t(row) * vocab;
        const int64_t id = next[row] = std::max_element(of_row, of_row + vocab) - of_row;
        // Skips ids beyond the tokenizer, which have no text.
        if (id < tokenizer_.vocab_size()) texts[row] += tokenizer_.piece(static_cast<int32_t>(id));
      }
    }
    return texts;
  }

  TextModel& model_;
  const Tokenizer& tokenizer_;
  const LambadaOptions& options_;
  LambadaResult result_;
  double loss_ = 0, word_loss_ = 0;
  int64_t right_ = 0, found_ = 0;
};

void check(const LanguageInfo& info, const LambadaOptions& options) {
  needed_tokenizer(info, "passages cannot be read");
  if (options.batch < 1 || options.new_tokens < 1 || options.limit.value_or(1) < 1) {
    fail_usage("LAMBADA needs at least one passage, one a batch and one new token.");
  }
}

}  // namespace

std::optional<LambadaResult> evaluate_lambada(TextModel& model, const LanguageInfo& info,
                                              const std::string& path,
                                              const LambadaOptions& options) {
  check(info, options);
  const auto start = Clock::now();
  const Passages passages = read_passages(path, model, info, options.limit);
  Evaluation evaluation(model, *info.tokenizer, options);
  const auto batch = static_cast<size_t>(options.batch);
  for (size_t begin = 0; begin < passages.size(); begin += batch) {
    const std::span all(passages);
    evaluation.add(all.subspan(begin, std::min(batch, all.size() - begin)));
    if (options.progress) {
      options.progress(evaluation.passages(), static_cast<int64_t>(passages.size()));
    }
    if (options.stopped()) return std::nullopt;
  }
  LambadaResult result = evaluation.finish();
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

nlohmann::json to_json(const LambadaResult& r) {
  return TOST_MEMBERS(r, passages, tokens, loss, last_word_loss, accuracy, official_accuracy,
                      shortened, seconds);
}

namespace {

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

// Inserts each choice into the text; all tokens of a text except the first are to be scored.
std::vector<ScoredText> fill_in(const Question& question, const Tokenizer& tokenizer,
                                const std::string& where) {
  std::vector<ScoredText> texts;
  for (const std::string& choice : question.choices) {
    const auto ids = tokenizer.encode(question.before + choice + question.after, where);
    if (ids.size() < 2) fail_data(where, " has fewer than two tokens with '", choice, "'.");
    texts.push_back({{ids.begin(), ids.end()}, static_cast<int64_t>(ids.size()) - 1});
  }
  return texts;
}

// If a text is too long, removes the same number of tokens from the beginning of all texts, so that
// sums can be compared. Returns whether tokens were removed.
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

size_t most_probable(TextModel& model, const std::vector<ScoredText>& texts) {
  std::vector<double> losses;
  for (const TokenScores& scores : score_texts(model, texts)) {
    losses.push_back(std::accumulate(scores.loss.begin(), scores.loss.end(), 0.0));
  }
  return static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

}  // namespace

std::optional<ChoiceResult> evaluate_choices(TextModel& model, const LanguageInfo& info,
                                             const std::string& path, std::optional<int64_t> limit,
                                             const LanguageEvalOptions& options) {
  needed_tokenizer(info, "questions cannot be read");
  if (limit.value_or(1) < 1) fail_usage("There must be at least one question to answer.");
  const auto start = Clock::now();
  std::vector<JsonRow> rows = read_rows(find_rows_file(path));
  if (limit && *limit < static_cast<int64_t>(rows.size())) {
    rows.resize(static_cast<size_t>(*limit));
  }
  ChoiceResult result;
  int64_t right = 0;
  for (const JsonRow& row : rows) {
    const Question question = make_question(row);
    std::vector<ScoredText> texts = fill_in(question, *info.tokenizer, row.where);
    result.shortened += shorten(max_context(model.config()), row.where, texts);
    right += most_probable(model, texts) == question.answer;
    result.chance += 1.0 / static_cast<double>(texts.size());
    ++result.questions;
    if (options.progress) options.progress(result.questions, static_cast<int64_t>(rows.size()));
    if (options.stopped()) return std::nullopt;
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
