// One table of mixers by tasks from the sweeps of the Long Range Arena.
#pragma once

#include <map>
#include <optional>

#include "tost/report/page.h"
#include "tost/study/lra_plan.h"
#include "tost/study/sweep_run.h"
#include "tost/study/sweep_summary.h"

namespace tost {

struct LraCell {
  MeanSpread top1;  // share, over the seeds that are done
  int64_t parameters = 0;
  std::optional<double> more;  // parameters / those of the reference - 1
  MeanSpread seconds, cpu_seconds;
  int64_t steps = 0;  // of training; 0: unknown
  int64_t failed = 0;
};

struct LraRow {
  std::string mixer;
  std::map<std::string, LraCell> cells;  // by task; those with a run that is done
  // Of the seeds that all tasks have: over the five tasks without Path-X, and over six, Path-X
  // counted as 0.5 where it was not run. Nothing where one of the five is missing.
  MeanSpread mean_of_five, mean_of_six;
  bool path_x_assumed = false;
};

struct LraTable {
  std::string title;
  std::vector<std::string> tasks;  // the columns: those of the plan
  std::string reference;
  std::vector<LraRow> rows;
  std::vector<std::string> remarks;  // what is missing, or has over 10 % more parameters
};

// `summaries` by task; those that are not there count as not run.
LraTable lra_table(const LraPlan& plan, const std::map<std::string, SweepSummary>& summaries,
                   const std::string& title);

// Accuracy, then parameters, then training time and steps.
std::vector<Table> lra_tables(const LraTable& table);
nlohmann::json to_json(const LraTable& table);
std::string lra_csv(const LraTable& table);  // one line a mixer and task
std::string lra_markdown(const LraTable& table);
Page lra_page(const LraTable& table, const std::string& command);

// Carries the sweeps of a Long Range Arena plan out, one after the other.

struct LraResult {
  LraTable table;
  int64_t failed = 0;  // runs of this call
  bool interrupted = false;
};

// What run_lra would do, by task.
std::map<std::string, std::vector<SweepStep>> lra_steps(const LraPlan& plan,
                                                        const SweepOptions& options);

// Each task's sweep in a folder of its name below options.out (see run_sweep), and after each the
// table over all: lra.md, lra.csv, lra.json and index.html. What is done is kept, so that the same
// call resumes where it was stopped. Throws as run_sweep; settings that no run can have show before
// the first begins.
LraResult run_lra(const LraPlan& plan, const std::string& title, const SweepOptions& options,
                  SweepListener& listener, const std::atomic<bool>* stop = nullptr);

}  // namespace tost
