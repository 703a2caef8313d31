// How the metrics that sweeps compare are written.
#pragma once

#include <string>

namespace tost {

struct MetricView {
  std::string heading;  // of a column
  std::string axis;     // of a plot
  double scale;
  int digits;
};

// `metric` as score_metric() gives it.
inline MetricView metric_view(const std::string& metric) {
  if (metric == "top1") return {"top-1 %", "top-1, %", 100, 2};
  if (metric == "accuracy") return {"accuracy %", "accuracy, %", 100, 2};
  return {"loss", "loss, nats", 1, 4};
}

}  // namespace tost
