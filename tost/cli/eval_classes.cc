// tost eval for classifiers: the flags of pictures and the printed scores.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/program.h"

namespace tost {
namespace {

using nlohmann::json;

// Prints a row with a count and a top-1 accuracy; the accuracy is null if the count is 0.
void print_share(const std::string& name, int64_t count, const json& top1) {
  std::cout << "  " << std::left << std::setw(24) << name << std::right << std::setw(8) << count;
  if (top1.is_number()) {
    std::cout << std::setw(9) << std::fixed << std::setprecision(2) << 100 * top1.get<double>()
              << " %";
  }
  std::cout << "\n";
}

std::string tokens_of(const json& row) {
  const auto shortest = row["shortest"].get<int64_t>(), longest = row["longest"].get<int64_t>();
  return shortest == longest ? cat(shortest, " tokens") : cat(shortest, " to ", longest, " tokens");
}

// The key, in a classifier's report, of the number of pictures or sequences.
std::string items_of(const json& report) {
  return report.contains("images") ? "images" : "sequences";
}

void print_scores(const json& report) {
  const std::string items = items_of(report);
  const auto label = [&](const std::string& name) {
    std::cout << std::left << std::setw(int(items.size()) + 2) << name << std::right << std::fixed;
  };
  for (const char* key : {"top1", "top5"}) {
    if (!report.contains(key)) continue;
    label(key);
    std::cout << std::setprecision(2) << 100 * report[key].get<double>() << " %\n";
  }
  label("loss");
  std::cout << std::setprecision(4) << plain_nan(report["loss"].get<double>()) << "\n";
  const auto count = report[items].get<int64_t>();
  label(items);
  std::cout << human_number(count) << " (" << report["split"].get<std::string>() << "), "
            << report["precision"].get<std::string>() << ", " << std::setprecision(0)
            << double(count) / std::max(report["seconds"].get<double>(), 1e-9) << " a second\n";
  label("model");
  std::cout << report["checkpoint"].get<std::string>() << "\n";
  if (report.contains("corruption")) {
    label("damage");
    std::cout << report["corruption"]["kind"].get<std::string>() << ", strength "
              << report["corruption"]["strength"].get<int64_t>() << "\n";
  }
  for (const json& row : report.value("by_length", json::array()))
    print_share(tokens_of(row), row[items], row["top1"]);
  for (const json& row : report.value("per_class", json::array()))
    print_share(row["class"], row[items], row["top1"]);
}

}  // namespace

std::vector<CLI::Option*> add_picture_eval_options(CLI::App& app, EvalCommand& command) {
  ScoreOptions& score = command.score;
  std::vector<CLI::Option*> options{
      add_value(app, "--data-format", command.data_format,
                "auto, idx, cifar10, cifar100, folder or shapes"),
      app.add_flag("--per-class", score.per_class, "Accuracy of each class as well"),
      app.add_option("--corrupt", score.corruption.kind,
                     "Damage the pictures, once they have the model's size: " +
                         join(corruption_kinds(), ", "))};
  options.push_back(add_value(app, "--strength", score.corruption.strength, "of --corrupt, 1 to 5")
                        ->needs("--corrupt"));
  for (CLI::Option* option : options) option->group("Image models");
  return options;
}

void run_class_eval(const CLI::App& app, EvalCommand& command,
                    const std::function<json(const ScoreOptions& options)>& score) {
  check_eval(app, command);
  set_threads(command.run.threads);
  ProgressLine progress(command.quiet || command.run.json);
  command.score.progress = [&](int64_t done, int64_t total, const char* what) {
    progress.update(done, total, what);
  };
  if (!command.run.json) {
    command.score.warn = [](const std::string& sentence) {
      std::cerr << "warning: " << sentence << "\n";
    };
  }
  command.score.stop = stop_flag();
  json report = score(command.score);
  progress.finish();
  if (report.is_null()) return say_interrupted();
  report["data"] = command.model.data;
  command.run.json ? print_json(report) : print_scores(report);
}

}  // namespace tost
