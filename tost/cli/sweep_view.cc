#include "tost/cli/sweep_view.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/kinds.h"
#include "tost/study/sweep_report.h"

namespace tost {
namespace {

using nlohmann::json;

std::string title_of(const PlannedRun& run) {
  return cat(run.variant, " seed ", run.seed);
}

std::string scores_of(const RunRecord& record) {
  const double value = record.scores.at(record.metric);
  const MetricView view = metric_view(record.metric);
  const bool percent = ends_with(view.heading, " %");
  const std::string name = view.heading.substr(0, view.heading.size() - (percent ? 2 : 0));
  const std::string text =
      format_text("%s %.*f%s", name.c_str(), view.digits, view.scale * value, percent ? " %" : "");
  return record.seconds ? cat(text, ", trained in ", human_duration(*record.seconds)) : text;
}

template <class Number>
std::string joined(const std::vector<Number>& numbers) {
  std::vector<std::string> parts;
  for (const Number n : numbers) parts.push_back(cat(n));
  return join(parts, ",");
}

}  // namespace

void SweepView::on_run(const SweepStep& step, int64_t number, int64_t count) {
  place_ = cat("[", number, "/", count, "] ", title_of(step.run));
}

void SweepView::on_stage(const std::string& stage) {
  stage_ = stage;
  if (!quiet_ && stage != "scoring") line_.print(place_ + ": " + stage);
}

void SweepView::on_step(const StepReport& report, double left_s) {
  line_.update(report.step, report.total_steps,
               cat(place_, "  ", stage_, "  ", format_text("loss %.3f", report.loss),
                   std::isfinite(left_s) ? "  left " + human_duration(left_s) : ""));
}

void SweepView::on_done(const SweepStep& step) {
  if (quiet_ || !step.record) return;
  const RunRecord& record = *step.record;
  if (!record.error.empty()) line_.print(place_ + ": failed: " + record.error);
  if (record.state == RunState::kDone) line_.print(place_ + ": " + scores_of(record));
}

void SweepView::on_message(const std::string& message) {
  if (!quiet_) line_.print(place_ + ": " + message);
}

json setting_from_text(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail_usage("--set '", text, "' must be KEY=VALUE, as in --set epochs=1.");
  }
  const std::string key = text.substr(0, equals);
  std::vector<std::string> known;
  std::string refusal;
  for (const RunKind& kind : run_kinds()) {
    for (const FieldInfo& field : kind.fields) {
      known.push_back(field.key);
      if (field.key != key) continue;
      try {
        return json{{key, value_from_text(field, text.substr(equals + 1))}};
      } catch (const Error& error) {
        if (refusal.empty()) refusal = error.what();
      }
    }
  }
  if (!refusal.empty()) fail_usage(refusal);
  fail_unknown_key(key, known, "--set");
}

void add_task_data(const std::string& text, std::map<std::string, std::string>& data) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    fail_usage("--data '", text, "' must be TASK=PATH, as in --data text=reviews.");
  }
  const std::string task = text.substr(0, equals);
  if (!data.emplace(task, text.substr(equals + 1)).second) {
    fail_usage("--data gives ", task, " twice; leave one out.");
  }
}

std::string join_numbers(const std::vector<int64_t>& numbers) {
  return joined(numbers);
}

std::string join_numbers(const std::vector<double>& numbers) {
  return joined(numbers);
}

void finish_sweeps(const RunOptions& run, const std::string& out, bool interrupted, int64_t failed,
                   const std::function<json()>& report,
                   const std::function<std::string()>& markdown) {
  if (failed > 0) set_exit_code(kExitData);
  if (interrupted) set_exit_code(kExitInterrupted);
  if (run.json) {
    json whole = report();
    whole.update({{"out", out}, {"interrupted", interrupted}});
    return print_json(whole);
  }
  std::cout << (interrupted ? "stopped, and saved; the same command resumes\n" : markdown() + "\n")
            << out << "\n";
}

json plan_json(const std::vector<SweepStep>& steps) {
  json runs = json::array();
  for (const SweepStep& step : steps) {
    runs.push_back({{"variant", step.run.variant},
                    {"seed", step.run.seed},
                    {"action", action_name(step.action)},
                    {"folder", step.run.folder.generic_string()},
                    {"settings", step.run.settings},
                    {"pretrain", step.run.pretrain ? *step.run.pretrain : json()}});
  }
  return {{"runs", runs}};
}

void print_plan(const std::vector<SweepStep>& steps) {
  for (const SweepStep& step : steps) {
    std::cout << action_name(step.action) << "  " << title_of(step.run) << "  "
              << json_text(step.run.settings) << "\n";
    if (step.run.pretrain) std::cout << "  pretrain  " << json_text(*step.run.pretrain) << "\n";
  }
}

}  // namespace tost
