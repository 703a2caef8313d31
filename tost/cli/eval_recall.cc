#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/options.h"
#include "tost/cli/result_file.h"
#include "tost/data/recall_data.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/kinds/language/explain_recall_maps.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;

// What the model's file says of its training, where it was of this task; values of other types do
// not count.
class TrainingFacts {
 public:
  TrainingFacts(const json& training, const std::string& task) {
    const json facts = training.is_object() ? training.value("recall", json()) : json();
    if (facts.is_object() && facts.value("task", json()) == task) facts_ = facts;
  }

  // Leaves `value` alone where its flag was given.
  template <class T>
  void fill(const CLI::App& app, const char* flag, const char* key, T& value) const {
    if (app.count(flag) > 0 || !facts_.contains(key)) return;
    const json& found = facts_[key];
    const bool fits = std::is_same_v<T, std::string> ? found.is_string()
                      : std::is_same_v<T, bool>      ? found.is_boolean()
                      : std::is_integral_v<T>        ? found.is_number_integer()
                                                     : found.is_number();
    if (fits) value = found.get<T>();
  }

  // The name of the file that the needles lay in; "" for the grammar.
  std::string haystack() const {
    const json name = facts_.value("haystack", json());
    return name.is_string() ? name.get<std::string>() : "";
  }

 private:
  json facts_ = json::object();
};

void fill_from_training(const CLI::App& app, const json& training, const std::string& task,
                        RecallFlags& flags) {
  const TrainingFacts facts(training, task);
  flags.lengths = flags.lengths.empty() ? (task == "needle" ? "1k" : "64") : flags.lengths;
  flags.pairs = flags.pairs.empty() ? "4" : flags.pairs;
  facts.fill(app, "--lengths", "lengths", flags.lengths);
  // Lists that go together are not mixed; a single number goes with all lengths.
  std::string pairs = flags.pairs;
  facts.fill(app, "--pairs", "pairs", pairs);
  if (app.count("--lengths") == 0 || pairs.find(',') == std::string::npos) flags.pairs = pairs;
  facts.fill(app, "--vocab", "vocab", flags.spec.vocab);
  facts.fill(app, "--power", "power", flags.spec.power);
  facts.fill(app, "--zero-filler", "random_filler", flags.spec.random_filler);
  facts.fill(app, "--distractors", "distractors", flags.spec.distractors);
  facts.fill(app, "--questions", "questions", flags.spec.questions);
  facts.fill(app, "--gap", "gap", flags.spec.gap);
  facts.fill(app, "--noise", "noise", flags.spec.noise);
  if (facts.haystack().empty() || app.count("--haystack") > 0) return;
  std::cerr << "note: the model learned from needles in " << shown(facts.haystack(), 80)
            << "; these lie in sentences of the grammar, give the file with --haystack\n";
}

void write_plot(const std::string& task, const RecallFlags& flags,
                const std::vector<RecallScores>& scores) {
  const bool grid = task == "needle" && !flags.depths.empty();
  const Drawing drawing =
      draw(grid ? needle_map(scores, std::ssize(parse_counts(flags.lengths, "--lengths")))
                : distance_map(task, scores));
  write_plot_file(flags.plot, drawing);
}

json report_of(const std::string& task, const LoadedLanguage& language,
               const std::vector<RecallScores>& scores) {
  const RecallTotals totals = recall_totals(scores);
  json cases = json::array();
  for (const RecallScores& one : scores) {
    cases.push_back(to_json(one, task));
    const double read = double(one.samples) * double(one.size.length);
    cases.back()["tokens_per_s"] = one.seconds > 0 ? json(read / one.seconds) : json();
  }
  json report = TOST_MEMBERS(totals, accuracy, exact, loss, tokens);
  report.update({{"cases", cases}, {"parameters", parameter_count(*language.model)}});
  return report;
}

void print_heading(const json& first) {
  std::cout << std::right << std::setw(9) << "length";
  for (const char* key : {"pairs", "depth"}) {
    if (first.contains(key)) std::cout << std::setw(7) << key;
  }
  std::cout << std::setw(12) << "accuracy %" << std::setw(9) << "exact %" << std::setw(24)
            << "near to far %" << std::setw(13) << "state bytes" << std::setw(12) << "tokens/s"
            << "\n";
}

void print_number(double value, int digits, int width) {
  std::cout << std::fixed << std::setprecision(digits) << std::setw(width) << plain_nan(value);
}

void print_case(const json& one) {
  std::cout << std::setw(9) << one["length"].get<int64_t>();
  if (one.contains("pairs")) std::cout << std::setw(7) << one["pairs"].get<int64_t>();
  if (one.contains("depth") && one["depth"].is_null()) std::cout << std::setw(7) << "any";
  if (one.contains("depth") && one["depth"].is_number()) {
    print_number(one["depth"].get<double>(), 2, 7);
  }
  print_number(100 * one["accuracy"].get<double>(), 2, 12);
  print_number(100 * one["exact"].get<double>(), 2, 9);
  std::vector<RecallDistances> parts;
  for (const json& part : one["distances"]) {
    parts.push_back({part["from"].get<int64_t>(), part["to"].get<int64_t>(),
                     part["tokens"].get<int64_t>(), part["accuracy"].get<double>()});
  }
  std::cout << std::setw(4) << "";
  for (const double share : by_quarter(parts)) {
    std::cout << std::setw(5)
              << (std::isnan(share) ? "-" : std::to_string(std::lround(100 * share)));
  }
  std::cout << std::setw(13) << human_number(one["state_bytes"].get<int64_t>());
  print_number(one["tokens_per_s"].is_null() ? 0 : one["tokens_per_s"].get<double>(), 0, 12);
  std::cout << "\n";
}

}  // namespace

bool is_recall_task(const std::string& task) {
  const auto tasks = recall_tasks();
  return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}

std::vector<RecallFlag> add_recall_eval_options(CLI::App& app, RecallFlags& flags) {
  RecallSpec& spec = flags.spec;
  const std::vector<std::string> all = recall_tasks();
  return {
      {app.add_option("--lengths", flags.lengths, "Tokens of a sample, such as 64,128 or 1k,100k"),
       all},
      {add_value(app, "--samples", flags.options.samples, "Samples of every case"), all},
      {app.add_option("--plot", flags.plot,
                      "Heat map to write (.svg or .png): length and depth, or distance"),
       all},
      {app.add_option("--pairs", flags.pairs,
                      "Keys with a value, or symbols; one number or one a length"),
       {"mqar", "selective-copying"}},
      {app.add_option("--power", spec.power, "Queries at the k-th place have weight k^(power - 1)"),
       {"mqar"}},
      {app.add_flag("--zero-filler{false}", spec.random_filler, "Zeros between the queries"),
       {"mqar"}},
      {app.add_option("--vocab", spec.vocab, "Tokens of the task"), recall_tasks_with_vocab()},
      {app.add_option("--gap", spec.gap, "Blanks before the copy"), {"copying"}},
      {app.add_option("--noise", spec.noise, "Share of pairs that are noise"),
       {"noisy-in-context-recall"}},
      {app.add_option(
           "--depths", flags.depths,
           "Shares of the haystack before the needle, such as 0,0.5,1 (default: random)"),
       {"needle"}},
      {app.add_option("--distractors", spec.distractors, "Needles with other keys"), {"needle"}},
      {app.add_option("--questions", spec.questions, "Needles that are asked for"), {"needle"}},
      {app.add_option("--haystack", spec.text,
                      "Text file around the needles; all splits draw from it"),
       {"needle"}}};
}

std::optional<json> run_recall(const CLI::App& app, LoadedLanguage& language,
                               const std::string& task, RecallFlags flags, ProgressLine& progress) {
  check_plot_file("plot", flags.plot);
  fill_from_training(app, language.info.training, task, flags);
  flags.spec.task = task;
  if (flags.options.split == "train" && recall_trains_on_all(task)) {
    fail_usage("The split train of ", task, " asks for every token, so it is for training alone; ",
               "score validation or test.");
  }
  const auto source = open_recall(flags.spec);
  const auto cases =
      task == "needle"
          ? parse_needle_cases(flags.lengths, flags.depths)
          : parse_recall_cases(flags.lengths, recall_has_pairs(task) ? flags.pairs : "1");
  flags.options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "samples read");
  };
  const auto scores = evaluate_recall(*language.model, *source, cases, flags.options);
  if (!scores) return std::nullopt;
  if (!flags.plot.empty()) write_plot(task, flags, *scores);
  json report = report_of(task, language, *scores);
  report["split"] = flags.options.split;
  return report;
}

void print_recall(const json& report) {
  print_heading(report["cases"].front());
  for (const json& one : report["cases"]) print_case(one);
  std::cout << std::setprecision(2) << "accuracy " << 100 * report["accuracy"].get<double>()
            << " %, whole samples " << 100 * report["exact"].get<double>() << " % ("
            << report["split"].get<std::string>() << "), "
            << human_number(report["parameters"].get<int64_t>()) << " parameters\n"
            << "model    " << report["checkpoint"].get<std::string>() << "\n";
}

}  // namespace tost
