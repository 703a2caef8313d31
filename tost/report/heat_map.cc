#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/report/chart_frame.h"
#include "tost/report/color_map.h"

namespace tost {
namespace {

constexpr double kMapMargin = 2;
constexpr double kNameRoom = 130;
constexpr double kValueCell = 38;       // least side of a cell that shows its value
constexpr int64_t kSingleCells = 2500;  // above it the cells are one picture

struct Names {
  std::vector<std::string> text;  // "" where none is written
  double longest = 0;
};

// Names, or numbers, as often as they have room; `room` is what one needs, in cells.
Names names_of(const std::vector<std::string>& given, int64_t count, double room) {
  Names names;
  const int64_t every = static_cast<int64_t>(nice_step(std::max(room, 1.0)));
  for (int64_t i = 0; i < count; ++i) {
    std::string name = given.empty() ? std::to_string(i) : given[static_cast<size_t>(i)];
    if (i % every != 0) name.clear();
    names.text.push_back(fit_text(name, kTickSize, kNameRoom));
    names.longest = std::max(names.longest, text_width(names.text.back(), kTickSize));
  }
  return names;
}

std::string name_at(const std::vector<std::string>& names, int64_t i) {
  return names.empty() ? std::to_string(i) : names[static_cast<size_t>(i)];
}

void check_names(const HeatMap& chart, const char* what, size_t names, int64_t expected) {
  if (names != 0 && static_cast<int64_t>(names) != expected) {
    fail_usage("Heat map '", chart.title, "': ", names, " names of ", what, " where ", expected,
               " are expected.");
  }
}

double place_of(const HeatMap& chart, double value) {
  const double half_span = chart.high / 2 - chart.low / 2;
  return half_span == 0 ? 0.5 : (value / 2 - chart.low / 2) / half_span;
}

// Two significant digits of the largest value.
int decimals_of(const HeatMap& chart) {
  const double largest = std::max(std::abs(chart.low), std::abs(chart.high));
  if (largest < 1e-290) return 0;
  return std::clamp(2 - static_cast<int>(std::ceil(std::log10(largest))), 0, 6);
}

void draw_cells(Frame& frame, const HeatMap& chart, double cell) {
  const double gap = cell >= 10 ? 1 : 0;
  const int decimals = decimals_of(chart);
  for (int64_t r = 0; r < chart.rows; ++r) {
    for (int64_t c = 0; c < chart.columns; ++c) {
      const double value = chart.values[static_cast<size_t>(r * chart.columns + c)];
      const Rgb color = color_of(chart.map, std::isnan(value) ? value : place_of(chart, value));
      const double x = frame.left + static_cast<double>(c) * cell;
      const double y = frame.top + static_cast<double>(r) * cell;
      frame.drawing.shapes.push_back(RectShape{.x = x,
                                               .y = y,
                                               .width = cell - gap,
                                               .height = cell - gap,
                                               .fill = Paint::of_rgb(color),
                                               .title = name_at(chart.row_names, r) + ", " +
                                                        name_at(chart.column_names, c) + ": " +
                                                        format_value(value)});
      if (!chart.show_values) continue;
      const Rgb ink = lightness_of(color) > 50 ? Rgb{0x12, 0x14, 0x18} : Rgb{0xff, 0xff, 0xff};
      frame.text({x + cell / 2, y + cell / 2 + 3.8},
                 fit_text(std::isnan(value) ? "–" : format_fixed(value, decimals), 10.5, cell),
                 10.5, Anchor::kMiddle, Paint::of_rgb(ink));
    }
  }
}

void draw_color_bar(Frame& frame, const HeatMap& chart, double x) {
  constexpr int64_t kSteps = 128;
  std::vector<double> steps;
  for (int64_t i = 0; i < kSteps; ++i) steps.push_back(static_cast<double>(kSteps - 1 - i));
  const double height = std::clamp(frame.bottom - frame.top, 60.0, 180.0);
  frame.drawing.shapes.push_back(
      ImageShape{.x = x,
                 .y = frame.top,
                 .width = 10,
                 .height = height,
                 .image = heat_image(steps, kSteps, 1, 0, kSteps - 1, chart.map),
                 .smooth = true,
                 .title = "colours"});
  const Axis axis{.low = chart.low, .high = chart.high};
  const Scale scale = make_scale(axis, {}, static_cast<int>(height / 36), Ends::kTight);
  double widest = 0;
  for (const Tick& tick : scale.ticks) {
    const double y = frame.top + (1 - scale.place(tick.value)) * height;
    frame.text({x + 15, y + kTickSize * 0.36}, tick.label, kTickSize, Anchor::kStart,
               Paint::of(Ink::kMuted));
    widest = std::max(widest, text_width(tick.label, kTickSize));
  }
  frame.drawing.width = std::max(frame.drawing.width, x + 15 + widest + kMapMargin);
  frame.drawing.height = std::max(frame.drawing.height, frame.top + height + 6);
}

void draw_row_names(Frame& frame, const HeatMap& chart, const Names& names, double cell) {
  for (size_t r = 0; r < names.text.size(); ++r) {
    if (names.text[r].empty()) continue;
    const double y = frame.top + (static_cast<double>(r) + 0.5) * cell;
    frame.text({frame.left - 6, y + kTickSize * 0.36}, names.text[r], kTickSize, Anchor::kEnd,
               Paint::of(Ink::kMuted));
  }
  if (chart.row_label.empty()) return;
  const double height = std::max(frame.bottom - frame.top, 60.0);
  frame.text({kMapMargin + kLabelSize, (frame.top + frame.bottom) / 2},
             fit_text(chart.row_label, kLabelSize, height), kLabelSize, Anchor::kMiddle,
             Paint::of(Ink::kMuted), -90);
}

double draw_column_names(Frame& frame, const HeatMap& chart, const Names& names, double cell,
                         bool upright) {
  double below = frame.bottom;
  for (size_t c = 0; c < names.text.size(); ++c) {
    if (names.text[c].empty()) continue;
    const double x = frame.left + (static_cast<double>(c) + 0.5) * cell;
    if (upright) {
      frame.text({x, frame.bottom + 15}, names.text[c], kTickSize, Anchor::kMiddle,
                 Paint::of(Ink::kMuted));
    } else {
      frame.text({x + kTickSize * 0.36, frame.bottom + 6}, names.text[c], kTickSize, Anchor::kEnd,
                 Paint::of(Ink::kMuted), -90);
    }
  }
  below += upright ? 18 : names.longest + 10;
  if (!chart.column_label.empty()) {
    const double width = std::max(frame.right - frame.left, 100.0);
    below += 16;
    frame.text({(frame.left + frame.right) / 2, below},
               fit_text(chart.column_label, kLabelSize, width), kLabelSize, Anchor::kMiddle,
               Paint::of(Ink::kMuted));
  }
  return below + kMapMargin;
}

std::string description_of(const HeatMap& chart) {
  double low = std::nan(""), high = low;
  for (const double value : chart.values) {
    if (!std::isfinite(value)) continue;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  return cat("Heat map", chart.title.empty() ? "" : ", " + chart.title, ". ", chart.rows, " rows, ",
             chart.columns, " columns, values from ", format_value(low), " to ", format_value(high),
             ".");
}

// Cells that show their values have room for them, and if possible for upright names.
double side_of(const HeatMap& chart) {
  if (!chart.show_values) return std::max(chart.cell, 0.5);
  double side = std::max(chart.cell, kValueCell);
  for (const std::string& name : chart.column_names) {
    const double needed = text_width(name, kTickSize) + 6;
    if (needed < 1.6 * kValueCell) side = std::max(side, needed);
  }
  return side;
}

}  // namespace

Drawing draw(const HeatMap& chart) {
  if (chart.rows == 0 || chart.columns == 0) return empty_chart(chart.title, 240, 96);
  check_names(chart, "rows", chart.row_names.size(), chart.rows);
  check_names(chart, "columns", chart.column_names.size(), chart.columns);
  const Image cells =
      heat_image(chart.values, chart.rows, chart.columns, chart.low, chart.high, chart.map);
  const double cell = side_of(chart);
  const Names rows = names_of(chart.row_names, chart.rows, 14 / cell);
  Names columns = names_of(chart.column_names, chart.columns, 14 / cell);
  bool upright = columns.longest <= cell - 4;
  if (!upright && chart.column_names.empty()) {  // fewer numbers instead of turned ones
    columns = names_of({}, chart.columns, (columns.longest + 8) / cell);
    upright = true;
  }
  Frame frame;
  frame.left = kMapMargin + (chart.row_label.empty() ? 0 : kLabelSize + 8) + rows.longest + 6;
  frame.top = chart.title.empty() ? 6 : kTitleSize + 18;
  frame.right = frame.left + static_cast<double>(chart.columns) * cell;
  frame.bottom = frame.top + static_cast<double>(chart.rows) * cell;
  frame.drawing.height = draw_column_names(frame, chart, columns, cell, upright);
  draw_row_names(frame, chart, rows, cell);
  if (chart.rows * chart.columns <= kSingleCells || chart.show_values) {
    draw_cells(frame, chart, cell);
  } else {
    frame.drawing.shapes.push_back(ImageShape{.x = frame.left,
                                              .y = frame.top,
                                              .width = frame.right - frame.left,
                                              .height = frame.bottom - frame.top,
                                              .image = cells});
  }
  draw_color_bar(frame, chart, frame.right + 14);
  if (!chart.title.empty()) {
    frame.drawing.width =
        std::max(frame.drawing.width,
                 std::min(320.0, text_width(chart.title, kTitleSize, true) + 2 * kMapMargin));
    frame.text({kMapMargin, 4 + kTitleSize},
               fit_text(chart.title, kTitleSize, frame.drawing.width - 2 * kMapMargin, true),
               kTitleSize, Anchor::kStart, Paint::of(Ink::kText), 0, true);
  }
  frame.drawing.description = description_of(chart);
  return std::move(frame.drawing);
}

}  // namespace tost
