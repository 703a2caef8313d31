#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/report/chart.h"
#include "tost/study/model_report.h"

namespace tost {
namespace {

// What tells this row from the others first: long names are cut at their end.
std::string name_of(const ModelBenchRow& r) {
  std::string name = r.model.substr(r.model.rfind('/') + 1);
  if (name.starts_with("tost_")) name.erase(0, 5);
  const std::string test = r.kind == "language" ? cat(r.test, ", ") : "";
  return cat(r.precision, ", ", r.engine ? "" : "plain, ", test, r.batch, ", ", name);
}

double percent(double part, double whole) {
  return part > 0 ? 100 * part / whole : std::nan("");
}

}  // namespace

Drawing model_bench_plot(const std::vector<ModelBenchRow>& rows) {
  BarChart chart;
  chart.title = "The floors' share of the time";
  chart.y = {.label = "% of the time", .low = 0};
  Series products{.name = "matrix products alone"}, read{.name = "one read of the weights"};
  for (const auto& row : rows) {
    if (!row.missing.empty() || (row.products_ms <= 0 && row.read_ms <= 0)) continue;
    chart.groups.push_back(name_of(row));
    products.y.push_back(percent(row.products_ms, row.median_ms));
    read.y.push_back(percent(row.read_ms, row.median_ms));
  }
  if (chart.groups.empty()) fail_usage("There is nothing to draw: no row has floors.");
  chart.horizontal = {{100, ""}};
  chart.series = {std::move(products), std::move(read)};
  chart.width = std::max(640.0, 60.0 * double(chart.groups.size()));
  return draw(chart);
}

Drawing model_work_plot(const std::vector<ModelBenchRow>& rows) {
  BarChart chart;
  chart.title = "Where the time goes";
  chart.y = {.label = "% of the time", .low = 0, .high = 100};
  chart.stacked = true;
  for (int k = 0; k < kernels::kWorkKinds; ++k) {
    chart.series.push_back({.name = kernels::work_name(static_cast<kernels::Work>(k))});
  }
  chart.series.push_back({.name = "rest"});
  for (const auto& row : rows) {
    if (row.work_total_ms <= 0) continue;
    chart.groups.push_back(name_of(row));
    for (size_t k = 0; k < row.work_ms.size(); ++k) {
      chart.series[k].y.push_back(100 * row.work_ms[k] / row.work_total_ms);
    }
    chart.series.back().y.push_back(100 * std::max(0.0, row.work_rest_ms()) / row.work_total_ms);
  }
  if (chart.groups.empty()) {
    fail_usage("There is nothing to draw: where the time goes is known of the engine alone.");
  }
  chart.width = std::max(640.0, 60.0 * double(chart.groups.size()));
  return draw(chart);
}

}  // namespace tost
