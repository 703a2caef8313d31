// Results of the scaling measurements: exponents, crossover, table and JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/study/scaling_bench.h"
#include "tost/study/scaling_fit.h"

namespace tost {

// The costs of one sequence: seconds, or bytes where they were counted.
std::vector<CostPoint> sequence_seconds(const ScalingResult& result, const std::string& mixer,
                                        const std::string& mode);
std::vector<CostPoint> sequence_bytes(const ScalingResult& result, const std::string& mixer,
                                      const std::string& mode);

struct ScalingFits {
  std::string mixer, mode;
  std::optional<PowerFit> time, memory;
};

// tssa against softmax in one mode.
struct ScalingDuel {
  std::string mode;
  std::optional<Crossover> crossover;              // in time
  std::vector<std::pair<int64_t, double>> ratios;  // tokens, times as fast; 1,024 4,096 16,384
};

struct ScalingSummary {
  int64_t fit_from = 0, fit_to = 0;
  std::vector<ScalingFits> fits;
  std::vector<ScalingDuel> duels;  // modes in which both were measured
};

// Fits over lengths in [from, to].
ScalingSummary summarize_scaling(const ScalingOptions& options, const ScalingResult& result,
                                 int64_t from, int64_t to);

// Time and memory a sequence by length and mixer, then fits, duels and memberships, as text.
std::string scaling_table(const ScalingOptions& options, const ScalingResult& result,
                          const ScalingSummary& summary);

nlohmann::json scaling_json(const ScalingOptions& options, const ScalingResult& result,
                            const ScalingSummary& summary);

}  // namespace tost
