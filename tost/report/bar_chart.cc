#include <algorithm>
#include <cmath>
#include <numbers>

#include "tost/report/chart_frame.h"

namespace tost {
namespace {

constexpr double kTiltedRoom = 120;  // for the longest tilted name
constexpr double kTilt = 35;         // degrees

struct NameLayout {
  bool tilted = false;
  size_t every = 1;  // of many groups only each n-th has its name written
  double below = 0;
};

NameLayout lay_out_names(const BarChart& chart) {
  double longest = 0;
  for (const std::string& name : chart.groups) {
    longest = std::max(longest, text_width(name, kTickSize));
  }
  const double slot = std::max(chart.width - 80, 80.0) / static_cast<double>(chart.groups.size());
  if (longest <= slot - 8) return {false, 1, 30};
  NameLayout layout{.tilted = true};
  layout.every = static_cast<size_t>(std::max(1.0, std::ceil(16 / slot)));
  const double shown = std::min(longest, kTiltedRoom);
  layout.below = 24 + shown * std::sin(kTilt * std::numbers::pi / 180);
  return layout;
}

void draw_names(Frame& frame, const BarChart& chart, const NameLayout& layout, double slot) {
  for (size_t g = 0; g < chart.groups.size(); g += layout.every) {
    const double x = frame.left + (static_cast<double>(g) + 0.5) * slot;
    if (layout.tilted) {
      // A name must not begin left of the drawing.
      const double room = std::min(kTiltedRoom, (x - 4) / std::cos(kTilt * std::numbers::pi / 180));
      frame.text({x + 4, frame.bottom + 14}, fit_text(chart.groups[g], kTickSize, room), kTickSize,
                 Anchor::kEnd, Paint::of(Ink::kMuted), -kTilt);
    } else {
      frame.text({x, frame.bottom + 18}, fit_text(chart.groups[g], kTickSize, slot), kTickSize,
                 Anchor::kMiddle, Paint::of(Ink::kMuted));
    }
  }
}

struct Place {
  double middle = 0, width = 0;
};

void draw_error_bar(Frame& frame, const Series& series, size_t g, Place place, Paint paint) {
  if (series.spread.empty() || !can_be_shown(series.spread[g], false)) return;
  const auto height = [&](double value) {
    if (!can_be_shown(value, frame.y.logarithmic)) return frame.bottom;
    return std::clamp(frame.y_of(value), frame.top, frame.bottom);
  };
  const double high = height(series.y[g] + series.spread[g]);
  const double low = height(series.y[g] - series.spread[g]);
  const double x = place.middle, cap = std::min(3.5, place.width / 2);
  frame.line({x, low}, {x, high}, paint, 1.5);
  frame.line({x - cap, low}, {x + cap, low}, paint, 1.5);
  frame.line({x - cap, high}, {x + cap, high}, paint, 1.5);
}

void draw_value(Frame& frame, const BarChart& chart, size_t s, size_t g, Place place) {
  const Series& series = chart.series[s];
  const double value = series.y[g];
  if (!can_be_shown(value, chart.y.logarithmic)) return;
  const int color = series_color(series, s);
  const std::string name = series.name.empty() ? "" : ", " + series.name;
  const std::string title = chart.groups[g] + name + ": " + value_with_spread(series, g);
  const double y = std::clamp(frame.y_of(value), frame.top, frame.bottom);
  if (chart.dots) {
    draw_error_bar(frame, series, g, place, Paint::of_series(color));
    if (!frame.y_inside(value)) return;
    frame.drawing.shapes.push_back(CircleShape{.center = {place.middle, y},
                                               .radius = std::clamp(place.width / 2, 2.0, 4.5),
                                               .fill = Paint::of_series(color),
                                               .title = title});
    return;
  }
  const double zero =
      chart.y.logarithmic ? frame.bottom : std::clamp(frame.y_of(0), frame.top, frame.bottom);
  frame.drawing.shapes.push_back(RectShape{.x = place.middle - place.width / 2,
                                           .y = std::min(y, zero),
                                           .width = place.width,
                                           .height = std::abs(zero - y),
                                           .fill = Paint::of_series(color),
                                           .title = title});
  draw_error_bar(frame, series, g, place, Paint::of(Ink::kText, 0.8));
}

void draw_stack(Frame& frame, const BarChart& chart, size_t g, Place place) {
  double below = 0;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (!can_be_shown(series.y[g], false) || series.y[g] <= 0) continue;
    const double low = std::clamp(frame.y_of(below), frame.top, frame.bottom);
    below += series.y[g];
    const double high = std::clamp(frame.y_of(below), frame.top, frame.bottom);
    const std::string name = series.name.empty() ? "" : ", " + series.name;
    frame.drawing.shapes.push_back(
        RectShape{.x = place.middle - place.width / 2,
                  .y = high,
                  .width = place.width,
                  .height = low - high,
                  .fill = Paint::of_series(series_color(series, s)),
                  .title = chart.groups[g] + name + ": " + value_with_spread(series, g)});
  }
}

void draw_values(Frame& frame, const BarChart& chart, double slot) {
  if (chart.stacked) {
    for (size_t g = 0; g < chart.groups.size(); ++g) {
      draw_stack(frame, chart, g,
                 {frame.left + (static_cast<double>(g) + 0.5) * slot, std::min(0.74 * slot, 56.0)});
    }
    return;
  }
  const double share = chart.dots ? 0.6 : 0.74;
  const double step = slot * share / static_cast<double>(chart.series.size());
  const double width =
      chart.dots ? std::min(step, 9.0) : std::min(step > 4 ? step - 1 : step * 0.9, 56.0);
  const double apart = std::min(step, chart.dots ? 22.0 : width + 1);
  const double first = -apart * (static_cast<double>(chart.series.size()) - 1) / 2;
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const double middle = frame.left + (static_cast<double>(g) + 0.5) * slot;
    for (size_t s = 0; s < chart.series.size(); ++s) {
      draw_value(frame, chart, s, g, {middle + first + apart * static_cast<double>(s), width});
    }
  }
}

// Of stacks their heights.
std::vector<double> stacked_values(const BarChart& chart) {
  std::vector<double> values;
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    double height = 0;
    for (const Series& series : chart.series) {
      check_series(chart.title, series, chart.groups.size());
      if (can_be_shown(series.y[g], false)) height += std::max(0.0, series.y[g]);
    }
    if (height > 0) values.push_back(height);
  }
  return values;
}

std::vector<double> shown_values(const BarChart& chart) {
  if (chart.stacked) return stacked_values(chart);
  std::vector<double> values;
  for (const Series& series : chart.series) {
    check_series(chart.title, series, chart.groups.size());
    for (size_t g = 0; g < series.y.size(); ++g) {
      if (!can_be_shown(series.y[g], chart.y.logarithmic)) continue;
      values.push_back(series.y[g]);
      if (series.spread.empty() || !can_be_shown(series.spread[g], false)) continue;
      values.push_back(series.y[g] + series.spread[g]);
      values.push_back(series.y[g] - series.spread[g]);
    }
  }
  return values;
}

}  // namespace

Drawing draw(const BarChart& chart) {
  const std::vector<double> values = shown_values(chart);
  if (values.empty()) return empty_chart(chart.title, chart.width, chart.height);
  const NameLayout layout = lay_out_names(chart);
  const bool from_zero = !chart.dots && !chart.y.logarithmic;
  Frame frame = begin_frame(
      {chart.title, chart.y.label, chart.horizontal, chart.width, chart.height, layout.below},
      chart.y, values, from_zero ? Ends::kZero : Ends::kTicks);
  const double slot = (frame.right - frame.left) / static_cast<double>(chart.groups.size());
  draw_references(frame, chart.horizontal);
  draw_values(frame, chart, slot);
  const double base = from_zero && frame.y_inside(0) ? frame.y_of(0) : frame.bottom;
  frame.line({frame.left, base}, {frame.right, base}, Paint::of(Ink::kMuted));
  draw_names(frame, chart, layout, slot);
  std::vector<LegendEntry> legend;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    using Key = LegendEntry::Key;
    if (!series.name.empty()) {
      legend.push_back(
          {series.name, series_color(series, s), chart.dots ? Key::kDot : Key::kSquare});
    }
  }
  draw_legend(frame, legend);
  frame.drawing.description = describe("Bar chart", chart.title, chart.series);
  return std::move(frame.drawing);
}

}  // namespace tost
