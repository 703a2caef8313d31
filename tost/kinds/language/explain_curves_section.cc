// Compression, correlations, spectra and norms by layer.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/map_images.h"
#include "tost/explain/numbers.h"
#include "tost/explain/spectra_charts.h"
#include "tost/kinds/language/explain_sections.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

using torch::Tensor;

using Pick = Spread (*)(const LayerStatistics&);

Series curve(const std::string& name, const TextStatistics& statistics, Pick pick) {
  Series series;
  series.name = name;
  for (size_t i = 0; i < statistics.rates.size(); ++i) {
    const Spread value = pick(statistics.rates[i]);
    series.x.push_back(double(i + 1));
    series.y.push_back(value.mean);
    series.spread.push_back(value.deviation);
  }
  return series;
}

LineChart by_layer(const std::string& title, const std::string& quantity) {
  LineChart chart;
  chart.title = title;
  chart.x = {.label = "layer", .integer = true};
  chart.y.label = quantity;
  return chart;
}

bool any_rates(const TextReport& report) {
  for (const auto& split : report.splits) {
    for (const auto& layer : split.statistics.rates) {
      if (layer.has_memberships) return true;
    }
  }
  return false;
}

void add_compression(Page& page, const TextReport& report) {
  auto chart = by_layer("Compression by layer", "R_var of unit-norm heads, nats");
  auto output = by_layer("Before the residual addition", "R_var of unit-norm heads, nats");
  int color = 0;
  for (const auto& [split, statistics] : report.splits) {
    auto before = curve(cat("input, ", split), statistics,
                        [](const LayerStatistics& l) { return l.rate_input; });
    auto after = curve(cat("after the residual, ", split), statistics,
                       [](const LayerStatistics& l) { return l.rate_after; });
    before.color = after.color = color++;
    after.dashed = true;
    chart.series.push_back(std::move(before));
    chart.series.push_back(std::move(after));
    output.series.push_back(curve(cat("mixer's output, ", split), statistics,
                                  [](const LayerStatistics& l) { return l.rate_output; }));
  }
  const auto& config = report.info.config;
  const double ceiling = compression_ceiling(config.dim / config.heads);
  chart.horizontal.push_back({ceiling, cat("ceiling ", number_text(ceiling, 2))});
  output.horizontal = chart.horizontal;
  page.charts({{"compression", draw(chart)}, {"compression-output", draw(output)}},
              "The paper's layer-wise measure: each head's part of a token at unit norm, "
              "ε² = 0.01, second moments over the whole window; lower is more compressed. Mean and "
              "standard deviation over windows. After the residual: normalised and projected by "
              "the same layer once more, memberships held.");
}

// Rows are the chosen layers that have groups, columns the chosen heads.
ThumbGrid correlation_grid(const TextReport& report, const ExplainedText& split) {
  ThumbGrid grid;
  grid.name = "correlations";
  const auto heads = std::min(report.heads.size(), kNamedHeads);
  grid.side = std::clamp(760.0 / double(heads), 72.0, 160.0);
  for (size_t k = 0; k < heads; ++k) grid.column_names.push_back(cat("head ", report.heads[k]));
  for (const int64_t number : report.layers) {
    const auto& layer = split.statistics.rates[static_cast<size_t>(number - 1)];
    if (!layer.correlations.defined()) continue;
    grid.row_names.push_back(cat("layer ", number));
    auto& row = grid.rows.emplace_back();
    for (size_t k = 0; k < heads; ++k) {
      const int64_t head = report.heads[k];
      const Tensor r = layer.correlations[head - 1];
      const double mean = layer.off_diagonal[head - 1].item<double>();
      row.push_back({map_image(r, r.size(0), r.size(1), 0, 1), cat("mean ", number_text(mean, 2)),
                     cat("correlations of the features of head ", head, ", layer ", number)});
    }
  }
  grid.caption =
      cat("Absolute correlations |r| between the P × P features of a head, weighted by membership, "
          "from 0 (dark) to 1 (bright); mean over ",
          split.statistics.windows, " windows of the ", data_of(split.split),
          ". Below each the mean off the diagonal. The layer keeps the diagonal alone. The numbers "
          "are in report.json.",
          heads < report.heads.size() ? cat(" The first ", heads, " of ", report.heads.size(),
                                            " heads; choose others with --heads.")
                                      : "");
  return grid;
}

void add_correlations(Page& page, const TextReport& report) {
  const auto& statistics = report.splits.back().statistics;
  page.heading("Is the diagonal statistic enough?");
  const auto grid = correlation_grid(report, report.splits.back());
  if (!grid.rows.empty()) page.thumbs(grid);
  Table table;
  table.header = {"layer", "mean |r| off the diagonal", "by chance", "exact rate / diagonal sum"};
  for (size_t i = 0; i < statistics.rates.size(); ++i) {
    const auto& layer = statistics.rates[i];
    if (!layer.has_memberships) continue;
    table.rows.push_back({{cat(i + 1), true},
                          {number_text(layer.off_diagonal_mean, 3), true},
                          {number_text(layer.off_diagonal_chance, 3), true},
                          {number_text(layer.diagonal_share.mean, 3), true}});
  }
  page.table(table);
}

void add_spectra(Page& page, const TextReport& report) {
  std::vector<std::pair<std::string, Drawing>> values, overlaps;
  Table table;
  table.caption =
      "Overlap: mean squared cosine of the principal angles between two heads' "
      "subspaces. Rank and effective rank (exp of the entropy of the singular values) "
      "of all heads' projections together.";
  table.header = {"layer", "overlap", "of random subspaces", "rank", "effective rank"};
  for (const int64_t number : report.layers) {
    const auto& found = report.spectra[static_cast<size_t>(number - 1)];
    if (!found || !found->sum_values.defined()) continue;
    values.emplace_back(cat("head-spectra-layer-", number),
                        head_values_chart(*found, number, report.heads));
    overlaps.emplace_back(cat("head-overlap-layer-", number), head_overlap_map(*found, number));
    table.rows.push_back({{cat(number), true},
                          {number_text(found->mean_overlap, 3), true},
                          {number_text(found->chance_overlap, 3), true},
                          {cat(found->rank, " of ", report.info.config.dim), true},
                          {number_text(found->effective_rank, 1), true}});
  }
  if (table.rows.empty()) return;
  page.heading("What the heads' subspaces span");
  page.charts(values);
  page.charts(overlaps);
  page.table(table);
}

void add_norms(Page& page, const TextReport& report) {
  auto chart = by_layer("Token norms after each layer", "|x|");
  for (const auto& [split, statistics] : report.splits) {
    chart.series.push_back(curve(split, statistics, [](const LayerStatistics& l) {
      return Spread{l.norms.mean, l.norms.deviation, l.norms.tokens};
    }));
  }
  page.heading("Token norms");
  page.chart("norms", draw(chart), "Mean and standard deviation over tokens.");
  Table table;
  table.caption = cat("Of the ", data_of(report.splits.back().split), ".");
  table.header = {"layer", "mean", "median", "largest", "beyond 3 medians"};
  const auto& rates = report.splits.back().statistics.rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    const auto& norms = rates[i].norms;
    table.rows.push_back({{cat(i + 1), true},
                          {number_text(norms.mean, 2), true},
                          {number_text(norms.median, 2), true},
                          {number_text(norms.largest, 2), true},
                          {number_text(100 * norms.beyond_medians, 2) + " %", true}});
  }
  page.table(table);
}

}  // namespace

void add_layer_curves(Page& page, const TextReport& report) {
  const bool rates = any_rates(report);
  bool spectra = false;
  for (const auto& found : report.spectra) spectra = spectra || found.has_value();
  if (report.splits.empty() && !spectra) return;
  page.section("layers", "Layer by layer");
  if (rates) add_compression(page, report);
  if (rates) add_bound(page, report);
  if (rates) add_correlations(page, report);
  add_spectra(page, report);
  if (!report.splits.empty()) add_norms(page, report);
}

}  // namespace tost
