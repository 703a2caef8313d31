#include "tost/explain/spectra_charts.h"

#include "tost/base/error.h"
#include "tost/explain/numbers.h"
#include "tost/report/chart.h"

namespace tost {

Drawing head_values_chart(const HeadSpectra& spectra, int64_t layer,
                          const std::vector<int64_t>& heads) {
  LineChart chart;
  chart.title = cat("Layer ", layer, ": singular values of Uₖ");
  chart.width = 400;
  chart.height = 260;
  chart.x = {.label = "direction", .integer = true};
  chart.y = {.label = "singular value", .low = 0};
  for (const int64_t head : heads) {
    if (chart.series.size() == kNamedHeads) break;
    const auto values = to_vector(spectra.singular_values[head - 1]);
    chart.series.push_back({.name = cat("head ", head),
                            .x = layer_axis(values.size()),
                            .y = values,
                            .dotted_points = false});
  }
  return draw(chart);
}

Drawing head_overlap_map(const HeadSpectra& spectra, int64_t layer) {
  HeatMap map;
  map.title = cat("Layer ", layer, ": overlap of heads");
  map.rows = map.columns = spectra.overlap.size(0);
  map.values = to_vector(spectra.overlap);
  map.show_values = map.rows <= 8;
  map.cell = map.rows <= 8 ? 34 : 16;
  for (int64_t head = 1; head <= map.rows; ++head) map.row_names.push_back(cat(head));
  map.column_names = map.row_names;
  map.row_label = map.column_label = "head";
  return draw(map);
}

}  // namespace tost
