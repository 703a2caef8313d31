// Sections about layers on average: entropy, compression, correlations, norms, bound.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/explain/numbers.h"
#include "tost/kinds/vision/explain_images.h"
#include "tost/kinds/vision/explain_page_parts.h"
#include "tost/report/chart.h"

namespace tost {
namespace {

// One value a layer, with its deviation.
template <class Pick>
Series layer_series(const std::string& name, const SplitStatistics& split, Pick pick) {
  Series series{.name = name, .x = layer_axis(split.layers.size())};
  bool several = false;  // pictures; one has no deviation
  for (const LayerStatistics& layer : split.layers) {
    const Spread spread = pick(layer);
    series.y.push_back(spread.mean);
    several = several || spread.count > 1;
    series.spread.push_back(std::isfinite(spread.deviation) ? spread.deviation : 0);
  }
  if (!several) series.spread.clear();
  return series;
}

LineChart layer_chart(const std::string& title, const std::string& y) {
  LineChart chart;
  chart.title = title;
  chart.x = {.label = "layer", .integer = true};
  chart.y = {.label = y};
  return chart;
}

std::string with_spread(const Spread& spread, int digits = 4) {
  return with_deviation(spread.mean, spread.deviation, spread.count, digits);
}

std::string pictures_of(const SplitStatistics& split) {
  return cat(split.pictures, " ", split.split, " picture", split.pictures == 1 ? "" : "s");
}

bool has_memberships(const SplitStatistics* split) {
  return split != nullptr && !split->layers.empty() && split->layers.front().has_memberships;
}

// Entropies so close to 1, and none equal to it, that only the distance to 1 distinguishes layers.
bool nearly_even(const SplitStatistics& split) {
  return std::all_of(split.layers.begin(), split.layers.end(), [](const LayerStatistics& layer) {
    return layer.entropy.mean > 0.99 && layer.entropy.mean < 1;
  });
}

std::string file_part(const std::string& split) {
  return split == "train" ? "train" : "held";
}

// |correlation| matrices: rows are the chosen layers, columns the heads.
ThumbGrid correlation_grid(const VisionReport& report, const SplitStatistics& split,
                           bool centered) {
  ThumbGrid grid;
  grid.name = centered ? "correlations-centered" : "correlations";
  grid.side = std::clamp(760.0 / double(report.heads.size()), 72.0, 160.0);
  for (const int64_t head : report.heads) grid.column_names.push_back(cat("head ", head));
  for (const int64_t number : report.layers) {
    const LayerStatistics& layer = split.layers[size_t(number - 1)];
    grid.row_names.push_back(cat("layer ", number));
    auto& row = grid.rows.emplace_back();
    for (const int64_t head : report.heads) {
      const auto matrix = (centered ? layer.centered : layer.correlations)[head - 1];
      const auto mean = (centered ? layer.centered_off_diagonal : layer.off_diagonal)[head - 1];
      row.push_back({map_image(matrix, matrix.size(0), matrix.size(1), 0, 1),
                     cat("mean ", shown(mean.item<double>(), 2)),
                     cat("correlations of the features of head ", head, ", layer ", number)});
    }
  }
  grid.caption =
      cat("|correlation| of a head's P × P features over the tokens of a picture, weighted by "
          "membership, from 0 (dark) to 1 (bright); mean of ",
          pictures_of(split),
          centered ? ". Covariances: the tokens' weighted mean is taken off."
                   : ". Second moments, as the layer's own statistic: no mean is taken off.",
          " Below each the mean off the diagonal.");
  return grid;
}

Table compression_table(const VisionReport& report) {
  Table table;
  table.header = {"layer"};
  for (const SplitStatistics& split : report.splits) {
    for (const char* what : {"input", "output", "after"}) {
      table.header.push_back(cat(what, ", ", split.split));
    }
  }
  table.header.insert(table.header.end(), {"change", "lowered in"});
  for (size_t i = 0; i < report.splits.back().layers.size(); ++i) {
    auto& row = table.rows.emplace_back(std::vector<TableCell>{number_cell(cat(i + 1))});
    for (const SplitStatistics& split : report.splits) {
      const LayerStatistics& layer = split.layers[i];
      for (const Spread* rate : {&layer.rate_input, &layer.rate_output, &layer.rate_after}) {
        row.push_back(number_cell(with_spread(*rate)));
      }
    }
    const LayerStatistics& layer = report.splits.back().layers[i];
    const Spread& change = layer.rate_change;
    row.push_back(
        number_cell(with_deviation(change.mean, standard_error(change), change.count, 2)));
    row.push_back(number_cell(percent(layer.rate_lowered, 0)));
  }
  table.caption = cat(
      "Means ± deviations over pictures. Change: from input to after in the same picture, ± the "
      "standard error of its mean; lowered in: the share of pictures where it is negative (",
      report.splits.back().split, ").");
  return table;
}

Table norm_table(const SplitStatistics& split, bool registers) {
  Table table;
  table.header = {"layer",      "mean", "deviation", "median", "longest", "> mean + 4 deviations",
                  "> 3 medians"};
  if (registers) table.header.emplace_back("registers, mean");
  for (size_t i = 0; i < split.layers.size(); ++i) {
    const NormStatistics& norms = split.layers[i].norms;
    table.rows.push_back({number_cell(cat(i + 1)), number_cell(shown(norms.mean)),
                          number_cell(shown(norms.deviation)), number_cell(shown(norms.median)),
                          number_cell(shown(norms.largest)),
                          number_cell(percent(norms.beyond_deviations, 2)),
                          number_cell(percent(norms.beyond_medians, 2))});
    if (registers) table.rows.back().push_back(number_cell(shown(norms.register_mean)));
  }
  return table;
}

Table bound_table(const SplitStatistics& split) {
  Table table;
  table.header = {"layer",
                  "bound",
                  "exact in heads",
                  "gap",
                  "objective before",
                  "after its step",
                  "lowered",
                  "lowered without LayerScale"};
  for (size_t i = 0; i < split.layers.size(); ++i) {
    const LayerStatistics& layer = split.layers[i];
    const RateGap& gap = layer.gaps[0];
    const ObjectiveStep& step = layer.objective;
    table.rows.push_back(
        {number_cell(cat(i + 1)), number_cell(with_spread(gap.bound)),
         number_cell(with_spread(gap.exact_heads)),
         number_cell(percent(gap.gap.mean / gap.bound.mean)), number_cell(with_spread(step.before)),
         number_cell(with_spread(step.stepped)), number_cell(percent(step.lowered, 0)),
         number_cell(percent(step.lowered_unscaled, 0))});
  }
  table.caption =
      "At the released scale 1. The objective is R_var of z U without bias, Π held "
      "fixed; lowered: the share of pictures where the layer's step makes it smaller. After the "
      "step tokens are not normalised again, as they are in the compression curve, so a step that "
      "lengthens them raises it.";
  return table;
}

}  // namespace

const SplitStatistics* main_split(const VisionReport& report) {
  return report.splits.empty() ? nullptr : &report.splits.back();
}

void add_entropy_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (!has_memberships(main)) return;
  page.section("entropy", "How decided memberships are", entropy_finding(*main));
  const bool even = nearly_even(*main);
  LineChart chart =
      layer_chart("Entropy of Π over heads", even ? "1 − entropy / log H" : "entropy / log H");
  even ? chart.y.logarithmic = true : chart.y.high = 1;
  for (const SplitStatistics& split : report.splits) {
    chart.series.push_back(layer_series(split.split, split, [&](const auto& layer) {
      return even ? Spread{.mean = 1 - layer.entropy.mean} : layer.entropy;
    }));
  }
  const std::string ends = "an entropy of 0: every token belongs to one head, of 1: to all alike.";
  page.chart("entropy", draw(chart),
             even ? cat("Mean over tokens and ", pictures_of(*main),
                        ". So close to 1 the difference to it is drawn, logarithmically; ", ends)
                  : cat("Mean over tokens, band one standard deviation over pictures (",
                        pictures_of(*main), "); ", ends));
}

void add_compression_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (!has_memberships(main)) return;
  const int64_t width = report.info.config.dim / report.info.config.heads;
  const double ceiling = compression_ceiling(width);
  page.section("compression", "Layer-wise compression", compression_finding(*main, ceiling));
  std::vector<std::pair<std::string, Drawing>> charts;
  for (const SplitStatistics& split : report.splits) {
    LineChart chart = layer_chart(cat("Compression, ", split.split), "R_var, unit-norm heads");
    chart.width = 480;
    chart.series = {
        layer_series("input of the layer", split, [](const auto& l) { return l.rate_input; }),
        layer_series("output, before residual", split, [](const auto& l) { return l.rate_output; }),
        layer_series("after residual", split, [](const auto& l) { return l.rate_after; })};
    chart.horizontal = {{ceiling, cat("ceiling ", shown(ceiling, 6))}};
    charts.emplace_back(cat("compression-", file_part(split.split)), draw(chart));
  }
  page.charts(charts,
              cat("R_var(Z, Π) with every head's tokens scaled to unit norm and ε² = ",
                  shown(kEpsilonSquared),
                  " (the measure of arXiv 2412.17810's layer-wise figure), "
                  "mean and standard deviation over pictures. It cannot exceed ½ P log(1 + 1/ε²), "
                  "P = ",
                  width,
                  ". Lower is more compressed. The output before the residual is "
                  "the layer's own addition, after it the tokens are normalised and projected as "
                  "the layer would take them again."));
  page.table(compression_table(report));
}

void add_correlation_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (!has_memberships(main) || !main->layers.front().correlations.defined()) return;
  page.section("correlations", "Correlations of projected tokens", correlation_finding(*main));
  page.chooser("correlation-kinds", {{"second moments", correlation_grid(report, *main, false)},
                                     {"mean taken off", correlation_grid(report, *main, true)}});
  Table table;
  table.header = {"layer",
                  "mean off diagonal",
                  "mean taken off",
                  "by chance",
                  "full / diagonal, released scale",
                  "full / diagonal, unit-norm heads"};
  for (size_t i = 0; i < main->layers.size(); ++i) {
    const LayerStatistics& layer = main->layers[i];
    table.rows.push_back({number_cell(cat(i + 1)), number_cell(shown(layer.off_diagonal_mean)),
                          number_cell(shown(layer.centered_off_diagonal_mean)),
                          number_cell(shown(layer.off_diagonal_chance)),
                          number_cell(percent(layer.diagonal_share.mean)),
                          number_cell(percent(layer.diagonal_share_unit.mean))});
  }
  table.caption =
      "Full: ½ logdet of each head's weighted second moments; diagonal: the same from "
      "its diagonal alone, which is all the layer computes. 100 %: nothing is missed.";
  page.table(table);
}

void add_norm_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (main == nullptr || main->layers.empty()) return;
  page.section("norms", "Token norms", norm_finding(*main, report.info.config.registers));
  LineChart chart;
  chart.title = "Distribution of token norms after a layer";
  chart.x = {.label = "norm"};
  chart.y = {.label = "share of tokens", .low = 0};
  for (const int64_t number : report.layers) {
    const NormStatistics& norms = main->layers[size_t(number - 1)].norms;
    Series series{.name = cat("layer ", number), .dotted_points = false};
    for (size_t bin = 0; bin < norms.histogram.size(); ++bin) {
      series.x.push_back((double(bin) + 0.5) * norms.largest / double(kNormBins));
      series.y.push_back(double(norms.histogram[bin]) / double(norms.tokens));
    }
    chart.series.push_back(std::move(series));
  }
  page.chart("norms", draw(chart), cat("Patches of ", pictures_of(*main), "."));
  page.table(norm_table(*main, report.info.config.registers > 0));
}

void add_bound_section(Page& page, const VisionReport& report) {
  const SplitStatistics* main = main_split(report);
  if (!has_memberships(main) || main->layers.front().gaps.empty()) return;
  page.section("bound", "The bound and the exact rate", bound_finding(*main));
  std::vector<std::pair<std::string, Drawing>> charts;
  for (size_t scale = 0; scale < 2; ++scale) {
    const std::string name =
        scale == 0 ? "f = log(1 + x), as released" : "f = log(1 + d/ε² x), as in the theory";
    LineChart chart = layer_chart(name, "nats");
    chart.width = 480;
    chart.series = {
        layer_series("bound R_var", *main, [=](const auto& l) { return l.gaps[scale].bound; }),
        layer_series("exact, in the heads", *main,
                     [=](const auto& l) { return l.gaps[scale].exact_heads; }),
        layer_series("exact, whole space", *main,
                     [=](const auto& l) { return l.gaps[scale].exact_space; })};
    charts.emplace_back(scale == 0 ? "bound-released" : "bound-theory", draw(chart));
  }
  page.charts(charts, cat("Means over ", pictures_of(*main), ", d = ", report.info.config.dim,
                          ". The bound holds over the exact rate of the projected tokens. Of the "
                          "whole space it is a bound only for orthonormal heads that hold their "
                          "group's tokens; ",
                          report.info.config.mixer == "tssa-tied"
                              ? "these heads are orthonormal, but tokens lie outside of them, too."
                              : "the released layer enforces neither."));
  page.table(bound_table(*main));
}

}  // namespace tost
