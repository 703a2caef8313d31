// The size of what a layer adds to each token, and how much a token counts for later ones.
#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/explain_sections.h"
#include "tost/kinds/language/explain_trace.h"
#include "tost/report/chart.h"
#include "tost/report/color_map.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr Rgb kEffect{0x1f, 0x7a, 0xc4}, kInfluence{0x8a, 0x3f, 0xa8};
constexpr size_t kListed = 8;

// Places of the largest values, falling; what is not finite is left out.
std::vector<int64_t> largest(const Tensor& values) {
  const Tensor order = values.nan_to_num(-1, -1, -1).argsort(/*stable=*/true, 0, true);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < order.size(0) && places.size() < kListed; ++i) {
    const auto place = order[i].item<int64_t>();
    if (std::isfinite(values[place].item<double>())) places.push_back(place);
  }
  return places;
}

double largest_value(const Tensor& values) {
  const auto places = largest(values);
  return places.empty() ? 0 : values[places[0]].item<double>();
}

// Tokens coloured from 0 to the largest value among them; those without a value are plain.
TextView colored(const TextReport& report, int64_t number, const Tensor& values, Rgb color,
                 const std::string& what) {
  const double high = largest_value(values);
  TextView view{layer_name(report, number), {}, ""};
  for (size_t t = 0; t < report.passage.ids.size(); ++t) {
    const bool known = int64_t(t) < values.size(0);
    const double value = known ? values[int64_t(t)].item<double>() : 0;
    const bool shown = known && std::isfinite(value) && high > 0;
    view.runs.push_back({passage_text(report.passage.tokens[t]), color,
                         shown ? std::clamp(value / high, 0.0, 1.0) : 0.0,
                         known ? cat(what, ": ", number_text(value, 4)) : ""});
  }
  const double mean = values.nanmean().item<double>();
  view.caption = cat("Full colour: ", number_text(high, 4), "; mean ", number_text(mean, 4), ".");
  return view;
}

void add_top(Page& page, const TextReport& report, int64_t number, const Tensor& values,
             Table& table) {
  for (const int64_t t : largest(values)) {
    table.rows.push_back({{cat(number), true},
                          {cat(t + 1), true},
                          {report.passage.tokens[size_t(t)], false, true},
                          {excerpt(report.passage, t)},
                          {number_text(values[t].item<double>(), 4), true}});
  }
}

Table top_table(const std::string& caption, const std::string& quantity) {
  Table table;
  table.caption = caption;
  table.header = {"layer", "place", "token", "up to it", quantity};
  return table;
}

void add_strongest(Page& page, const TextReport& report) {
  if (report.splits.empty()) return;
  const auto& s = report.splits.back().statistics;
  Table table;
  table.caption = cat("Tokens of the largest mean own effect over ", s.windows, " windows of the ",
                      data_of(report.splits.back().split), ", of those that occur at least ",
                      s.least, " times and lie above the layer's mean; × against it.");
  table.header = {"layer", "mean", "tokens"};
  for (const int64_t number : report.layers) {
    const auto& layer = s.layers[static_cast<size_t>(number - 1)];
    std::vector<std::string> parts;
    for (const auto& row : layer.strongest) {
      parts.push_back(cat(visible_token(report.info.tokenizer.get(), row.id), "\u00A0×",
                          number_text(row.against, 2)));
    }
    table.rows.push_back({{layer_name(report, number)},
                          {number_text(layer.effect_mean, 4), true},
                          {join(parts, "\u00A0\u00A0 ")}});
  }
  page.table(table);
}

// How far tokens reach, in one sentence a layer.
std::string influence_finding(const TextReport& report) {
  std::vector<std::string> parts;
  for (const int64_t number : report.layers) {
    const Tensor means = influence_by_distance(report.influence[static_cast<size_t>(number - 1)]);
    std::vector<std::string> values;
    for (const int64_t distance : {1, 4, 16, 64}) {
      if (distance > means.size(0)) break;
      values.push_back(
          cat(number_text(100 * means[distance - 1].item<double>(), 1), " % at ", distance));
    }
    parts.push_back(cat(layer_name(report, number), ": ", join(values, ", ")));
  }
  return cat("Mean change by how many tokens later: ", join(parts, "; "), ".",
             report.info.config.options.conv > 0
                 ? cat(" The nearest ", report.info.config.options.conv - 1,
                       " are reached by the convolution as well.")
                 : "");
}

}  // namespace

void add_effects(Page& page, const TextReport& report) {
  page.section("own-effect", "Own effect of a token",
               "How much a layer's mixer adds to a token, as a share of what it finds: "
               "|γ₁ mixer(norm x)| / |x|.");
  std::vector<TextView> views;
  auto table = top_table("The largest own effects in the passage.", "own effect");
  for (const int64_t number : report.layers) {
    const Tensor effect = report.trace.layers[static_cast<size_t>(number - 1)].effect[0];
    views.push_back(colored(report, number, effect, kEffect, "own effect"));
    add_top(page, report, number, effect, table);
  }
  page.text_chooser("own-effect", views);
  page.begin_details("The largest in the passage, by layer");
  page.table(table);
  page.end_details();
  add_strongest(page, report);
}

void add_influence_section(Page& page, const TextReport& report) {
  if (report.influence.empty() || report.influence[0].size(0) < 2) return;
  page.section("influence", "What later tokens would miss",
               "Each token is left out of what a layer reads, and the layer is run again: the "
               "change of its outputs at later tokens, |y − y without it| / |y|. Exact, one run "
               "for each token; it shows the rare tokens a layer's statistics rest on.");
  LineChart chart{.title = "Influence by distance",
                  .x = {.label = "tokens later", .logarithmic = true},
                  .y = {.label = "relative change", .logarithmic = true},
                  .series = {},
                  .horizontal = {}};
  for (const int64_t number : report.layers) {
    const Tensor means = influence_by_distance(report.influence[static_cast<size_t>(number - 1)]);
    Series series{
        .name = layer_name(report, number), .x = {}, .y = {}, .spread = {}, .dotted_points = false};
    for (int64_t d = 0; d < means.size(0); ++d) {
      series.x.push_back(double(d + 1));
      series.y.push_back(means[d].item<double>());
    }
    chart.series.push_back(std::move(series));
  }
  page.chart("influence-by-distance", draw(chart),
             "Mean over the passage. Sums over the whole past dilute a token as 1 / position; sums "
             "that forget end it at their horizon.");
  page.paragraph(influence_finding(report));
  const int64_t reach = influence_reach(report.influence[0].size(0));
  std::vector<TextView> views;
  auto table = top_table("Tokens that later ones would miss most.", "mean influence");
  for (const int64_t number : report.layers) {
    const auto& influence = report.influence[static_cast<size_t>(number - 1)];
    const Tensor mean = influence_of_tokens(influence, reach);
    views.push_back(colored(report, number, mean, kInfluence, "mean influence"));
    add_top(page, report, number, mean, table);
  }
  page.text_chooser("influence", views);
  page.paragraph(cat("Mean over the ", reach, " tokens after it; the last ", reach, " measured",
                     ", which have fewer, are not coloured. Early tokens share the sums with few "
                     "others and count for more."));
  page.begin_details("The largest, by layer");
  page.table(table);
  page.end_details();
}

// Output gates and how far sums reach back.

namespace {

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
