// How the numbers that sweeps compare are written.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tost/report/page.h"
#include "tost/study/sweep_summary.h"

namespace tost {

struct MetricView {
  std::string heading;  // of a column
  std::string axis;     // of a plot
  double scale;
  int digits;
};

// `metric` of the kind of run (RunKind).
inline MetricView metric_view(const std::string& metric) {
  if (metric == "top1") return {"top-1 %", "top-1, %", 100, 2};
  if (metric == "accuracy") return {"accuracy %", "accuracy, %", 100, 2};
  return {"loss", "loss, nats", 1, 4};
}

// A cell of a table that is aligned as a number.
inline TableCell number_cell(std::string text) {
  return {.text = std::move(text), .number = true};
}

// Numbers that are not finite are null.
inline nlohmann::json to_json(const MeanSpread& value) {
  const auto finite = [](double x) {
    return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json();
  };
  return {{"n", value.n}, {"mean", finite(value.mean)}, {"spread", finite(value.spread)}};
}

}  // namespace tost
