#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/bench/model_report.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

// What tells this row from the others, as short as can be.
std::string name_of(const ModelBenchRow& r) {
  std::string name = r.model.substr(r.model.rfind('/') + 1);
  if (r.kind == "language") name += " " + r.test;
  return cat(name, ", ", r.batch, ", ", r.precision, r.engine ? "" : ", plain");
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

}  // namespace tost
