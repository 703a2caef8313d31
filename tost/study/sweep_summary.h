// One row a variant: what its seeds gave together.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tost/study/sweep_run.h"

namespace tost {

// Means and spreads over seeds.

struct MeanSpread {
  int64_t n = 0;
  double mean = std::nan("");    // of nothing: NaN
  double spread = std::nan("");  // sample standard deviation (divisor n - 1); NaN below n = 2
};

MeanSpread mean_spread(const std::vector<double>& values);

// Of value - base over the seeds that both have.
MeanSpread paired_difference(const std::map<int64_t, double>& values,
                             const std::map<int64_t, double>& base);

struct VariantSummary {
  std::string variant;
  int64_t parameters = 0;
  std::optional<int64_t> heads, head_width;
  std::map<int64_t, double> by_seed;  // the metric, of the runs that are done
  MeanSpread score;
  MeanSpread difference;  // to the first variant, seed by seed; n = 0 for the first itself
  std::map<std::string, MeanSpread> scores;                  // every score by name
  std::map<std::string, std::vector<MeanSpread>> corrupted;  // by kind, one a strength
  std::map<std::string, MeanSpread> corrupted_mean;  // over a kind's strengths, then over seeds
  MeanSpread seconds, cpu_seconds;                   // of the runs whose time is known
  // Evaluations that all its runs have, in order.
  std::vector<int64_t> steps, epochs;
  std::vector<MeanSpread> curve;
  int64_t failed = 0;
};

struct SweepSummary {
  std::string metric;           // of the kind of run (RunKind)
  std::string split;            // of the score
  std::string corrupted_split;  // of the corrupted pictures; "" without any
  std::vector<std::string> kinds;
  std::vector<int64_t> strengths;
  std::vector<VariantSummary> variants;  // in the order of the plan
};

SweepSummary summarize(const SweepSpec& spec, const SweepPlan& plan,
                       const std::vector<SweepStep>& steps);

}  // namespace tost
