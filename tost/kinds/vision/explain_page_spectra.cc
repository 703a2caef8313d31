#include "tost/base/error.h"
#include "tost/explain/numbers.h"
#include "tost/explain/spectra_charts.h"
#include "tost/kinds/vision/explain_findings.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

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
                        head_values_chart(spectra, layer, report.heads));
    overlaps.emplace_back(cat("head-overlap-layer-", layer), head_overlap_map(spectra, layer));
  }
  if (!values.empty()) {
    page.charts(values, report.heads.size() > kNamedHeads
                            ? "The first eight of the chosen heads; report.json holds all."
                            : "");
    page.charts(overlaps);
    page.chart("sum-spectra", sum_values(report));
  }
  page.table(coverage_table(report));
}

}  // namespace tost
