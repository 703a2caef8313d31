#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/program.h"
#include "tost/io/safe_text.h"
#include "tost/kinds/language/answer_eval.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

using nlohmann::json;

void print_number(double value, int digits, int width) {
  std::cout << std::fixed << std::setprecision(digits) << std::setw(width) << plain_nan(value);
}

}  // namespace

std::optional<json> run_answers(LoadedLanguage& language, const EvalCommand& command,
                                ProgressLine& progress) {
  const std::string split = command.split.empty() ? "test" : command.split;
  const TokenTaskData data(command.data.path, split);
  AnswerEvalOptions options;
  options.samples = command.samples;
  options.batch = command.batch;
  options.stop = stop_flag();
  options.progress = [&](int64_t done, int64_t total) {
    progress.update(done, total, "samples read");
  };
  const auto scores = evaluate_answers(*language.model, data, options);
  if (!scores) return std::nullopt;
  json report = to_json(*scores);
  for (size_t i = 0; i < scores->size(); ++i) {
    const AnswerScores& one = (*scores)[i];
    const double read = double(one.samples) * double(one.length);
    report["groups"][i]["tokens_per_s"] = one.seconds > 0 ? json(read / one.seconds) : json();
  }
  report["parameters"] = parameter_count(*language.model);
  report["split"] = split;
  return report;
}

void print_answers(const json& report) {
  std::cout << std::left << std::setw(16) << "group" << std::right << std::setw(9) << "length"
            << std::setw(12) << "accuracy %" << std::setw(9) << "exact %" << std::setw(13)
            << "state bytes" << std::setw(12) << "tokens/s"
            << "\n";
  for (const json& one : report["groups"]) {
    std::cout << std::left << std::setw(16) << escaped(one["group"].get<std::string>())
              << std::right << std::setw(9) << one["length"].get<int64_t>();
    print_number(100 * one["accuracy"].get<double>(), 2, 12);
    print_number(100 * one["exact"].get<double>(), 2, 9);
    std::cout << std::setw(13) << human_number(one["state_bytes"].get<int64_t>());
    print_number(one["tokens_per_s"].is_null() ? 0 : one["tokens_per_s"].get<double>(), 0, 12);
    std::cout << "\n";
  }
  std::cout << std::setprecision(2) << "accuracy " << 100 * report["accuracy"].get<double>()
            << " %, whole samples " << 100 * report["exact"].get<double>() << " % ("
            << report["split"].get<std::string>() << "), "
            << human_number(report["parameters"].get<int64_t>()) << " parameters\n"
            << "model    " << report["checkpoint"].get<std::string>() << "\n";
}

}  // namespace tost
