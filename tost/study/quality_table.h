// What the quality bench found: contestants by tasks, and every task by itself.
#pragma once

#include <map>
#include <optional>

#include "tost/report/page.h"
#include "tost/study/quality_plan.h"
#include "tost/study/sweep_summary.h"

namespace tost {

// Where the figures come from.
struct QualityHeading {
  std::string command;
  std::string machine;  // with version, build and date, as a line
  std::string date;     // UTC
};

// One task, as far as it was run.
struct QualityTaskResult {
  const QualityTask* task = nullptr;
  std::map<std::string, double> rates;  // chosen, by contestant
  SweepSummary tried;                   // of the learning rates; empty where there was no choice
  SweepSummary summary;                 // of the seeds
};

struct QualityCell {
  std::string contestant;
  std::optional<double> rate = {};
  std::map<double, double> tried = {};  // score by learning rate, of the run that chose
  int64_t parameters = 0;
  std::optional<int64_t> state_bytes = {};  // causal contestants
  MeanSpread score = {};
  std::map<std::string, MeanSpread> cases = {};  // of recall, by "64" or "64/4"
  MeanSpread cpu_seconds = {};
  int64_t failed = 0;
};

struct QualityTaskTable {
  std::string name, title, metric, split;
  bool causal = false;
  int64_t steps = 0;
  std::vector<QualityCell> cells = {};  // in the order of the contestants
};

struct QualityTable {
  QualityHeading heading;
  std::vector<double> rates;
  std::vector<QualityTaskTable> tasks;
  std::vector<std::string> remarks;  // what is missing or failed
};

bool lower_is_better(const std::string& metric);
// Null where there is none.
const VariantSummary* find_variant(const SweepSummary& summary, const std::string& name);

QualityTable quality_table(const QualityPlan& plan, const std::vector<QualityTaskResult>& results,
                           const QualityHeading& heading);

// Contestants by tasks, causal and others; then one table a task.
std::vector<Table> quality_tables(const QualityTable& table);
nlohmann::json to_json(const QualityTable& table);
std::string quality_markdown(const QualityTable& table);
Page quality_page(const QualityTable& table);

}  // namespace tost
