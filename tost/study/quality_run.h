// Carries the quality bench out: task after task, first the learning rates, then the seeds.
#pragma once

#include "tost/study/quality_table.h"
#include "tost/study/sweep_run.h"

namespace tost {

struct QualityResult {
  QualityTable table;
  int64_t failed = 0;  // runs of this call
  bool interrupted = false;
};

// Each task's sweeps in the folders TASK-rates (where there are several) and TASK below
// options.out (see run_sweep), and after each task the files quality.md, quality.json and
// index.html. What is done is kept, so that the same call resumes. Throws as run_sweep.
QualityResult run_quality(const QualityPlan& plan, const QualityHeading& heading,
                          const SweepOptions& options, SweepListener& listener,
                          const std::atomic<bool>* stop = nullptr);

// The best rate of each contestant, by the mean of `summary`'s metric; of the first ones of equal
// scores. Contestants whose runs all failed are not in it.
std::map<std::string, double> best_rates(const QualityTask& task, const std::vector<double>& rates,
                                         const SweepSummary& summary);

}  // namespace tost
