// Compression, correlations, spectra and norms by layer.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/explain/head_spectra.h"
#include "tost/explain/numbers.h"
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

// The variational bound and the exact rate, and what a layer's step does to its objective.

namespace {

Table rate_table(const ExplainedText& split) {
  Table table;
  table.caption = cat("Rates of w as the layer saw it; means over ", split.statistics.windows,
                      " windows of the ", data_of(split.split), ", nats.");
  table.header = {"layer", "bound, scale 1", "exact", "gap", "bound, scale C/ε²", "exact", "gap"};
  for (size_t i = 0; i < split.statistics.rates.size(); ++i) {
    const auto& layer = split.statistics.rates[i];
    if (layer.gaps.empty()) continue;
    auto& row = table.rows.emplace_back(std::vector<TableCell>{{cat(i + 1), true}});
    for (const auto& gap : layer.gaps) {
      for (const Spread& s : {gap.bound, gap.exact_heads, gap.gap}) {
        row.push_back({number_text(s.mean, 3), true});
      }
    }
  }
  return table;
}

Table objective_table(const TextReport& report, const ExplainedText& split) {
  Table table;
  table.caption =
      cat("The objective of the layer's input, before its step and after it; means over ",
          split.statistics.windows, " windows of the ", data_of(split.split),
          ", nats, and the share of windows in which it fell.");
  table.header = {"layer", "before", "after", "fell", "after, without LayerScale", "fell"};
  for (size_t i = 0; i < split.statistics.rates.size(); ++i) {
    const auto& layer = split.statistics.rates[i];
    if (layer.gaps.empty() || !report.trace.layers[i].descends) continue;
    const auto& step = layer.objective;
    table.rows.push_back({{cat(i + 1), true},
                          {number_text(step.before.mean, 4), true},
                          {number_text(step.stepped.mean, 4), true},
                          {number_text(100 * step.lowered, 0) + " %", true},
                          {number_text(step.unscaled.mean, 4), true},
                          {number_text(100 * step.lowered_unscaled, 0) + " %", true}});
  }
  return table;
}

// Layers with rates whose step is another than the gradient's.
std::vector<std::string> other_steps(const TextReport& report) {
  std::vector<std::string> names;
  const auto& rates = report.splits.back().statistics.rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    const auto& layer = report.trace.layers[i];
    if (!rates[i].gaps.empty() && !layer.descends) {
      names.push_back(cat(i + 1, " (", layer.mixer, ")"));
    }
  }
  return names;
}

bool any_step(const TextReport& report) {
  const auto& rates = report.splits.back().statistics.rates;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (!rates[i].gaps.empty() && report.trace.layers[i].descends) return true;
  }
  return false;
}

void add_objective(Page& page, const TextReport& report) {
  page.paragraph(
      "The objective is the bound at scale 1 of z U, z the normalised tokens that go into the "
      "layer, without its bias. The step adds γ₁ mixer(z) to them; Π is held at what it was, and "
      "the tokens are not normalised again, so that a step which lengthens them can raise it. The "
      "sums run over the whole window here too, where the layer follows those of the tokens so "
      "far.");
  for (const auto& split : report.splits) page.table(objective_table(report, split));
}

}  // namespace

void add_bound(Page& page, const TextReport& report) {
  if (!report.bound || report.splits.empty()) return;
  page.heading("Variational bound and exact rate");
  page.paragraph(
      "w are the layer's projected tokens (after its convolution, where it has one) and Π their "
      "memberships. Bound: R_var, for each head the mean over the tokens of its squared features, "
      "weighted by Π, through ½ log(1 + scale · x) and summed; exact: ½ logdet with the whole "
      "matrix of second moments in its place, at most the bound. Scale 1 is the f of the released "
      "layer, C / ε² the theory's with ε² = 0.01. The sums run over the whole window with each "
      "token's own membership; the layer itself sums over the tokens so far, and with decay "
      "forgets the far ones.");
  for (const auto& split : report.splits) page.table(rate_table(split));
  if (any_step(report)) add_objective(page, report);
  const auto others = other_steps(report);
  if (others.empty()) return;
  page.note(
      cat("What the step does to the objective is left out for layer",
          others.size() == 1 ? " " : "s ", join(others, ", "),
          ": R_var is not an objective of theirs. Only TSSA without first moments, convolution "
          "and gate adds a step of the form of R_var's gradient."));
}

}  // namespace tost
