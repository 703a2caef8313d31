// What commands that run sweeps share: progress, settings from flags, and the plan in words.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/cli/options.h"
#include "tost/cli/terminal.h"
#include "tost/study/sweep_run.h"

namespace tost {

// Progress on stderr.
class SweepView : public SweepListener {
 public:
  explicit SweepView(bool quiet) : quiet_(quiet), line_(quiet) {}

  void on_run(const SweepStep& step, int64_t number, int64_t count) override;
  void on_stage(const std::string& stage) override;
  void on_step(const StepReport& report, double left_s) override;
  void on_done(const SweepStep& step) override;
  void on_message(const std::string& message) override;
  void finish() { line_.finish(); }

 private:
  bool quiet_;
  ProgressLine line_;
  std::string place_, stage_;
};

// "epochs=1" as {"epochs": 1}. Which kind of run has the setting matters only where kinds differ in
// the values they take. Throws a usage Error.
nlohmann::json setting_from_text(const std::string& text);

// Adds "listops=PATH" to `data`. Throws a usage Error for another form and a task given twice.
void add_task_data(const std::string& text, std::map<std::string, std::string>& data);

// 0, 1, 2 as "0,1,2".
std::string join_numbers(const std::vector<int64_t>& numbers);
std::string join_numbers(const std::vector<double>& numbers);

// Prints what came out, as JSON with "out" and "interrupted" added or as Markdown, and sets the
// exit code.
void finish_sweeps(const RunOptions& run, const std::string& out, bool interrupted, int64_t failed,
                   const std::function<nlohmann::json()>& report,
                   const std::function<std::string()>& markdown);

nlohmann::json plan_json(const std::vector<SweepStep>& steps);
void print_plan(const std::vector<SweepStep>& steps);

}  // namespace tost
