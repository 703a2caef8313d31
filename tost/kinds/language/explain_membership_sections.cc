// Memberships, and the tokens each head takes.
#include <algorithm>
#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/explain_sections.h"
#include "tost/report/chart.h"
#include "tost/report/color_map.h"

namespace tost {
namespace {

using torch::Tensor;

constexpr size_t kMembershipHeads = 8;
constexpr int64_t kPlotPoints = 128;

std::vector<int64_t> layers_with(const TextReport& report, bool (*has)(const TextLayer&)) {
  std::vector<int64_t> numbers;
  for (const int64_t layer : report.layers) {
    if (has(layer_at(report, layer))) numbers.push_back(layer);
  }
  return numbers;
}

bool has_pi(const TextLayer& layer) {
  return layer.pi.defined();
}

// Every token in the colour of its most likely head; stronger the further above 1/H.
std::vector<ColoredText> likeliest_heads(const TextReport& report, const TextLayer& layer) {
  const Tensor pi = layer.pi[0].nan_to_num(0);
  const auto [best, head] = pi.max(0);
  const double even = 1.0 / double(pi.size(0));
  std::vector<ColoredText> runs;
  for (size_t t = 0; t < report.passage.ids.size(); ++t) {
    const double p = best[int64_t(t)].item<double>();
    const auto k = head[int64_t(t)].item<int64_t>();
    runs.push_back({passage_text(report.passage.tokens[t]), group_color(k),
                    even < 1 ? std::clamp((p - even) / (1 - even), 0.0, 1.0) : 1.0,
                    cat("head ", k + 1, ": ", number_text(p, 3))});
  }
  return runs;
}

std::vector<ColoredText> one_head(const TextReport& report, const Tensor& pi, int64_t head,
                                  double low, double high) {
  const Tensor own = pi[head].contiguous();
  std::vector<ColoredText> runs;
  for (size_t t = 0; t < report.passage.ids.size(); ++t) {
    const double p = own[int64_t(t)].item<double>();
    runs.push_back({passage_text(report.passage.tokens[t]), group_color(head),
                    high > low ? std::clamp((p - low) / (high - low), 0.0, 1.0) : 0.0, ""});
  }
  return runs;
}

void add_head_passages(Page& page, const TextReport& report, int64_t number) {
  const auto& layer = layer_at(report, number);
  const Tensor pi = layer.pi[0];
  const double low = pi.nan_to_num(1).min().item<double>();
  const double high = pi.nan_to_num(0).max().item<double>();
  page.begin_details(cat("Each head of ", layer_name(report, number), " by itself"));
  std::vector<TextView> views;
  for (const int64_t head : report.heads) {
    if (views.size() == kMembershipHeads) break;
    views.push_back(
        {cat("head ", head), one_head(report, pi, head - 1, low, high),
         cat("Membership of head ", head, " from ", number_text(low, 3), " (no colour) to ",
             number_text(high, 3), " (full colour), the extremes of this layer; its mean here is ",
             number_text(pi[head - 1].mean().item<double>(), 3), ".")});
  }
  page.text_chooser(cat("heads-of-layer-", number), views);
  if (report.heads.size() > kMembershipHeads) {
    page.paragraph(cat("The first ", kMembershipHeads, " of ", report.heads.size(),
                       " heads; choose others with --heads."));
  }
  page.end_details();
}

// At most kPlotPoints places of 1 ... count, closer at the beginning.
std::vector<int64_t> plot_places(int64_t count) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kPlotPoints; ++i) {
    const double part = double(i) / double(kPlotPoints - 1);
    const auto place = std::llround(std::pow(double(count), part));
    if (places.empty() || place > places.back()) places.push_back(place);
  }
  return places;
}

// Mean entropy by position over windows, or that of the passage where there are none.
void add_entropy_chart(Page& page, const TextReport& report, const std::vector<int64_t>& layers) {
  const bool windows = !report.splits.empty();
  const bool tssa = std::any_of(layers.begin(), layers.end(), [&](int64_t number) {
    return layer_at(report, number).mixer == "tssa";
  });
  LineChart chart{.title = windows ? "Entropy of membership by position"
                                   : "Entropy of membership over the passage",
                  .x = {.label = "position of the token", .logarithmic = true},
                  .y = {.label = "entropy / log H", .low = 0, .high = 1.05}};
  for (const int64_t number : layers) {
    Series series{.name = layer_name(report, number), .dotted_points = false};
    Tensor mean = layer_at(report, number).entropy[0], spread;
    if (windows) {
      const auto& s = report.splits.back().statistics.layers[static_cast<size_t>(number - 1)];
      mean = s.entropy;
      spread = s.entropy_spread;
    }
    for (const int64_t place : plot_places(mean.size(0))) {
      series.x.push_back(double(place));
      series.y.push_back(mean[place - 1].item<double>());
      if (windows) series.spread.push_back(spread[place - 1].item<double>());
    }
    chart.series.push_back(std::move(series));
  }
  page.chart("entropy-by-position", draw(chart),
             cat("0: a token belongs to one head, 1: to all alike",
                 windows ? cat("; mean and standard deviation over ",
                               report.splits.back().statistics.windows, " windows of the ",
                               data_of(report.splits.back().split), ".")
                         : ".",
                 tssa ? " Logits of causal TSSA are a token's shares of running energies: the same "
                        "for all heads at the first token but for their temperatures, then falling "
                        "as 1 / position."
                      : ""));
}

// How membership drifts with position, in one sentence a layer.
std::string entropy_finding(const TextReport& report, const std::vector<int64_t>& layers) {
  std::vector<std::string> parts;
  for (const int64_t number : layers) {
    const Tensor entropy =
        report.splits.empty()
            ? layer_at(report, number).entropy[0]
            : report.splits.back().statistics.layers[static_cast<size_t>(number - 1)].entropy;
    const int64_t last = entropy.size(0) - 1;
    std::vector<std::string> values;
    for (const int64_t place : std::set<int64_t>{0, 1, 9, last}) {
      if (place > last) continue;
      values.push_back(cat(number_text(entropy[place].item<double>(), 2), " at token ", place + 1));
    }
    parts.push_back(cat(layer_name(report, number), ": ", join(values, ", ")));
  }
  return cat("Entropy in ", join(parts, "; "), ".");
}

void add_share_map(Page& page, const TextReport& report) {
  if (report.splits.empty()) return;
  const auto& statistics = report.splits.back().statistics;
  HeatMap map{.title = "Mean membership of each head", .low = 0, .high = 0};
  for (size_t i = 0; i < statistics.layers.size(); ++i) {
    const auto& layer = statistics.layers[i];
    if (!layer.has_memberships) continue;
    map.row_names.push_back(cat("layer ", i + 1));
    for (int64_t k = 0; k < layer.share.size(0); ++k) {
      map.values.push_back(layer.share[k].item<double>());
      if (std::isfinite(map.values.back())) map.high = std::max(map.high, map.values.back());
    }
  }
  if (map.values.empty()) return;
  map.rows = int64_t(map.row_names.size());
  map.columns = int64_t(map.values.size()) / map.rows;
  for (int64_t k = 0; k < map.columns; ++k) map.column_names.push_back(cat("head ", k + 1));
  map.show_values = map.columns <= 16;
  map.cell = 40;
  page.chart("mean-membership", draw(map),
             cat("Over all tokens of the windows; 1/H is ",
                 number_text(1.0 / double(map.columns), 3), "."));
}

// Of all heads: those that are not chosen colour tokens as well.
void add_legend(Page& page, const TextReport& report) {
  const int64_t heads = report.info.config.heads;
  std::vector<ColoredText> runs;
  for (int64_t head = 1; head <= heads; ++head) {
    runs.push_back({cat(" head ", head, " "), group_color(head - 1), 1.0, ""});
    runs.push_back({"  ", {}, 0, ""});
  }
  page.colored_text("head-colours", runs,
                    int64_t(report.heads.size()) < heads
                        ? "Every head counts here; --heads chooses those shown by themselves."
                        : "");
}

void add_taken_of_layer(Page& page, const TextReport& report, int64_t number) {
  const auto& layer = report.splits.back().statistics.layers[static_cast<size_t>(number - 1)];
  if (!layer.has_memberships) return;
  Table table;
  table.caption = cat("In ", layer_name(report, number), ".");
  table.header = {"head", "mean", "tokens by lift"};
  bool any = false;
  for (const int64_t head : report.heads) {
    std::vector<std::string> parts;
    for (const auto& row : layer.taken[static_cast<size_t>(head - 1)]) {
      parts.push_back(cat(visible_token(report.info.tokenizer.get(), row.id), "\u00A0×",
                          number_text(row.against, 2)));
    }
    any = any || !parts.empty();
    table.rows.push_back({{cat(head), true},
                          {number_text(layer.share[head - 1].item<double>(), 3), true},
                          {join(parts, "\u00A0\u00A0 ")}});
  }
  if (any) page.table(table);
}

}  // namespace

void add_memberships(Page& page, const TextReport& report) {
  const auto layers = layers_with(report, has_pi);
  if (layers.empty()) return;
  page.section("memberships", "Memberships",
               "Each token in the colour of the head it most likely belongs to; the stronger the "
               "colour, the more decided the membership (none: all heads alike).");
  add_legend(page, report);
  std::vector<TextView> views;
  for (const int64_t number : layers) {
    const auto& layer = layer_at(report, number);
    const Tensor best = std::get<0>(layer.pi[0].max(0));
    views.push_back(
        {layer_name(report, number), likeliest_heads(report, layer),
         cat("Highest membership of a token: mean ", number_text(best.mean().item<double>(), 3),
             ", ", number_text(1.0 / double(layer.pi.size(1)), 3), " would be undecided; entropy ",
             number_text(layer.entropy.mean().item<double>(), 3), " of 1.")});
  }
  page.text_chooser("memberships", views);
  for (const int64_t number : layers) {
    if (!layer_at(report, number).uniform) add_head_passages(page, report, number);
  }
  page.heading("How decided memberships are");
  page.paragraph(entropy_finding(report, layers));
  add_entropy_chart(page, report, layers);
  add_share_map(page, report);
}

void add_taken_tokens(Page& page, const TextReport& report) {
  if (report.splits.empty() || layers_with(report, has_pi).empty()) return;
  const auto& s = report.splits.back().statistics;
  page.section(
      "taken", "Which tokens each head takes",
      cat("Lift: the mean membership of a token over all its occurrences, divided by the "
          "head's mean over all tokens. Over ",
          s.windows, " windows of the ", data_of(report.splits.back().split),
          "; tokens that occur at least ", s.least, " times and lie above that mean (× 1)."));
  for (const int64_t number : layers_with(report, has_pi)) {
    if (!layer_at(report, number).uniform) add_taken_of_layer(page, report, number);
  }
}

}  // namespace tost
