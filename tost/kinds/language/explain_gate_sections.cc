// Output gates and how far sums reach back.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/explain_sections.h"
#include "tost/report/chart.h"
#include "tost/report/color_map.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr size_t kShownHeads = 8;
constexpr Rgb kOpen{0xd9, 0x4f, 0x2a}, kReversed{0x1f, 0x7a, 0xc4};

std::vector<int64_t> layers_with_gates(const TextReport& report) {
  std::vector<int64_t> numbers;
  for (const int64_t layer : report.layers) {
    if (layer_at(report, layer).gate.defined()) numbers.push_back(layer);
  }
  return numbers;
}

// The passage in the colours of one head's gate, full at `high` on either side of 0.
TextView gate_view(const TextReport& report, const Tensor& gate, int64_t head, double high) {
  const Tensor own = gate[head - 1].contiguous();
  TextView view{cat("head ", head), {}, ""};
  for (size_t t = 0; t < report.passage.ids.size(); ++t) {
    const double value = own[int64_t(t)].item<double>();
    const bool shown = std::isfinite(value) && high > 0;
    view.runs.push_back({passage_text(report.passage.tokens[t]), value < 0 ? kReversed : kOpen,
                         shown ? std::clamp(std::abs(value) / high, 0.0, 1.0) : 0.0,
                         cat("gate ", number_text(value, 3))});
  }
  view.caption =
      cat("Head ", head, ": from ", number_text(own.min().item<double>(), 3), " to ",
          number_text(own.max().item<double>(), 3), ", mean ",
          number_text(own.mean().item<double>(), 3), ". Full colour: ±", number_text(high, 3), ".");
  return view;
}

void add_gate_passages(Page& page, const TextReport& report, int64_t number) {
  const Tensor gate = layer_at(report, number).gate[0];
  const double high = gate.nan_to_num(0, 0, 0).abs().max().item<double>();
  std::vector<TextView> views;
  for (const int64_t head : report.heads) {
    if (views.size() == kShownHeads) break;
    views.push_back(gate_view(report, gate, head, high));
  }
  page.heading(cat("Gates of ", layer_name(report, number)));
  page.text_chooser(cat("gates-of-layer-", number), views);
  if (report.heads.size() > kShownHeads) {
    page.paragraph(cat("The first ", kShownHeads, " of ", report.heads.size(),
                       " heads; choose others with --heads."));
  }
}

// Layers by heads, means over the passage.
void add_gate_means(Page& page, const TextReport& report, const std::vector<int64_t>& layers) {
  HeatMap map{.title = "Mean gate over the passage", .low = 0, .high = 0};
  map.map = ColorMap::kDiverging;
  for (const int64_t number : layers) {
    const Tensor means = layer_at(report, number).gate[0].mean(1);
    map.row_names.push_back(cat("layer ", number));
    for (const int64_t head : report.heads) {
      map.values.push_back(means[head - 1].item<double>());
      if (std::isfinite(map.values.back())) {
        map.high = std::max(map.high, std::abs(map.values.back()));
      }
    }
  }
  map.low = -map.high;
  map.rows = int64_t(map.row_names.size());
  map.columns = int64_t(report.heads.size());
  for (const int64_t head : report.heads) map.column_names.push_back(cat("head ", head));
  map.show_values = map.columns <= 16;
  map.cell = 40;
  page.chart("gates", draw(map),
             "The factor that a head's output is multiplied by, silu of a projection of the token, "
             "as the mean over the head's features. 0 shuts the head off; below 0, where silu "
             "reaches down to −0.28, it turns its sign.");
}

void add_horizons(Page& page, const TextReport& report) {
  Table table;
  table.caption =
      "How many tokens a head's sums reach back, 1 / (1 − γ) of its forgetting "
      "rate.";
  table.header = {"layer"};
  for (const int64_t head : report.heads) table.header.push_back(cat("head ", head));
  for (size_t i = 0; i < report.horizon.size(); ++i) {
    if (!report.horizon[i].defined()) continue;
    std::vector<TableCell> row = {{cat(i + 1), true}};
    for (const int64_t head : report.heads) {
      row.push_back({number_text(report.horizon[i][head - 1].item<double>(), 1), true});
    }
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) page.table(table);
}

}  // namespace

void add_gates(Page& page, const TextReport& report) {
  const auto layers = layers_with_gates(report);
  const bool forgets = std::any_of(report.horizon.begin(), report.horizon.end(),
                                   [](const Tensor& horizon) { return horizon.defined(); });
  if (layers.empty() && !forgets) return;
  page.section("gates", "Gates and memory",
               layers.empty() ? ""
                              : "Tokens by the output gate of one head: red where it lets the "
                                "head through, blue where it turns its sign, none where it shuts.");
  for (const int64_t number : layers) add_gate_passages(page, report, number);
  if (!layers.empty()) add_gate_means(page, report, layers);
  if (forgets) add_horizons(page, report);
}

}  // namespace tost
