#include "tost/base/error.h"
#include "tost/explain/vision_findings.h"
#include "tost/explain/vision_images.h"
#include "tost/explain/vision_page_parts.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

constexpr size_t kMostNamedHeads = 8;  // lines a chart of heads can tell apart

Drawing head_values(const HeadSpectra& spectra, int64_t layer, const std::vector<int64_t>& heads) {
  LineChart chart;
  chart.title = cat("Layer ", layer, ": singular values of Uₖ");
  chart.width = 400;
  chart.height = 260;
  chart.x = {.label = "direction", .integer = true};
  chart.y = {.label = "singular value", .low = 0};
  for (const int64_t head : heads) {
    if (chart.series.size() == kMostNamedHeads) break;
    const auto values = to_vector(spectra.singular_values[head - 1]);
    chart.series.push_back({.name = cat("head ", head),
                            .x = layer_axis(values.size()),
                            .y = values,
                            .dotted_points = false});
  }
  return draw(chart);
}

Drawing overlap_map(const HeadSpectra& spectra, int64_t layer) {
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

Drawing sum_values(const VisionReport& report) {
  LineChart chart;
  chart.title = "Singular values of [U₁ … U_H]";
  chart.x = {.label = "direction", .integer = true};
  chart.y = {.label = "singular value", .low = 0};
  for (const int64_t layer : report.layers) {
    const auto& spectra = report.spectra[size_t(layer - 1)];
    if (!spectra.sum_values.defined()) continue;
    const auto values = to_vector(spectra.sum_values);
    chart.series.push_back({.name = cat("layer ", layer),
                            .x = layer_axis(values.size()),
                            .y = values,
                            .dotted_points = false});
  }
  return draw(chart);
}

Table coverage_table(const VisionReport& report) {
  Table table;
  table.header = {"layer",
                  "rank",
                  "effective rank",
                  "directions of 99 % energy",
                  "effective rank of bases",
                  "overlap of heads",
                  "by chance"};
  for (size_t i = 0; i < report.spectra.size(); ++i) {
    const HeadSpectra& s = report.spectra[i];
    table.rows.push_back(
        {number_cell(cat(i + 1)), number_cell(cat(s.rank)), number_cell(shown(s.effective_rank)),
         number_cell(cat(s.energy_rank)), number_cell(shown(s.basis_effective_rank)),
         number_cell(shown(s.mean_overlap)), number_cell(shown(s.chance_overlap))});
  }
  table.caption =
      cat("How much of the ", report.info.config.dim,
          "-dimensional space the heads cover together. "
          "Effective rank: exp of the entropy of the singular values' shares; of the bases: the "
          "same with each U_k replaced by an orthonormal basis, so that scale does not count. "
          "Overlap: mean squared cosine of the principal angles between two heads' subspaces.");
  return table;
}

}  // namespace

void add_spectra_section(Page& page, const VisionReport& report) {
  if (report.spectra.empty()) return;
  page.section("spectra", "The heads' subspaces",
               spectra_finding(report.spectra, report.info.config.dim));
  std::vector<std::pair<std::string, Drawing>> values, overlaps;
  for (const int64_t layer : report.layers) {
    const HeadSpectra& spectra = report.spectra[size_t(layer - 1)];
    if (!spectra.singular_values.defined()) {
      page.note(
          cat("Layer ", layer, " has weights that are not finite; its spectra are left out."));
      continue;
    }
    values.emplace_back(cat("head-spectra-layer-", layer),
                        head_values(spectra, layer, report.heads));
    overlaps.emplace_back(cat("head-overlap-layer-", layer), overlap_map(spectra, layer));
  }
  if (!values.empty()) {
    page.charts(values, report.heads.size() > kMostNamedHeads
                            ? "The first eight of the chosen heads; report.json holds all."
                            : "");
    page.charts(overlaps);
    page.chart("sum-spectra", sum_values(report));
  }
  page.table(coverage_table(report));
}

}  // namespace tost
