#include "tost/report/chart_frame.h"

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr double kMargin = 1;  // pages and pictures add their own
constexpr double kInset = 8;
constexpr double kLabelRoom = 110;
constexpr double kLeastPlot = 48;

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(tick.label, kTickSize));
  return width;
}

double reference_room(const std::vector<ReferenceLine>& lines) {
  double width = 0;
  for (const ReferenceLine& line : lines) {
    if (!line.label.empty()) width = std::max(width, text_width(line.label, kTickSize));
  }
  return std::min(width, kLabelRoom);
}

void draw_y_axis(Frame& frame) {
  for (const Tick& tick : frame.y.ticks) {
    const double y = frame.y_of(tick.value);
    if (tick.label.empty()) continue;
    frame.line({frame.left, y}, {frame.right, y}, Paint::of(Ink::kGrid));
    frame.text({frame.left - 8, y + kTickSize * 0.36}, tick.label, kTickSize, Anchor::kEnd,
               Paint::of(Ink::kMuted));
  }
}

void draw_key(Frame& frame, const LegendEntry& entry, double x, double y) {
  const Paint paint = Paint::of_series(entry.color);
  using Key = LegendEntry::Key;
  if (entry.key == Key::kLine || entry.key == Key::kDashedLine) {
    frame.line({x, y - 4}, {x + 18, y - 4}, paint, 2.5, entry.key == Key::kDashedLine);
  } else if (entry.key == Key::kDot) {
    frame.drawing.shapes.push_back(
        CircleShape{.center = {x + 9, y - 4}, .radius = 4.5, .fill = paint});
  } else {
    frame.drawing.shapes.push_back(
        RectShape{.x = x + 4, .y = y - 9, .width = 10, .height = 10, .fill = paint});
  }
}

}  // namespace

double Frame::x_of(double value) const {
  return left + kInset + x.place(value) * (right - left - 2 * kInset);
}

double Frame::y_of(double value) const {
  return bottom - y.place(value) * (bottom - top);
}

void Frame::text(Point at, const std::string& text, double size, Anchor anchor, Paint paint,
                 double degrees, bool bold) {
  drawing.shapes.push_back(TextShape{.at = at,
                                     .text = text,
                                     .size = size,
                                     .anchor = anchor,
                                     .paint = paint,
                                     .bold = bold,
                                     .degrees = degrees});
}

void Frame::line(Point from, Point to, Paint paint, double width, bool dashed) {
  drawing.shapes.push_back(
      PathShape{.points = {from, to}, .stroke = paint, .width = width, .dashed = dashed});
}

Frame begin_frame(const FrameParts& parts, const Axis& y, std::vector<double> values, Ends ends) {
  Frame frame;
  frame.drawing.width = std::max(parts.width, 160.0);
  frame.top = 4;
  const double words = frame.drawing.width - 2 * kMargin;
  if (!parts.title.empty()) {
    frame.text({kMargin, frame.top + kTitleSize}, fit_text(parts.title, kTitleSize, words, true),
               kTitleSize, Anchor::kStart, Paint::of(Ink::kText), 0, true);
    frame.top += kTitleSize + 10;
  }
  if (!parts.y_label.empty()) {
    frame.text({kMargin, frame.top + kLabelSize}, fit_text(parts.y_label, kLabelSize, words),
               kLabelSize, Anchor::kStart, Paint::of(Ink::kMuted));
    frame.top += kLabelSize + 6;
  }
  frame.top += 8;
  frame.bottom = std::max(parts.height - parts.below, frame.top + kLeastPlot);
  frame.drawing.height = frame.bottom + parts.below;
  for (const ReferenceLine& line : parts.horizontal) values.push_back(line.value);
  frame.y = make_scale(y, values, static_cast<int>((frame.bottom - frame.top) / 45), ends);
  frame.left = kMargin + widest(frame.y.ticks) + 8;
  const double room = reference_room(parts.horizontal);
  frame.right =
      std::max(frame.drawing.width - (room > 0 ? room + 6 : 10) - kMargin, frame.left + kLeastPlot);
  frame.drawing.width = std::max(frame.drawing.width, frame.right + kMargin);
  draw_y_axis(frame);
  return frame;
}

void draw_references(Frame& frame, const std::vector<ReferenceLine>& lines) {
  std::vector<std::pair<double, const ReferenceLine*>> labels;
  for (const ReferenceLine& line : lines) {
    if (!can_be_shown(line.value, frame.y.logarithmic) || !frame.y_inside(line.value)) continue;
    const double y = frame.y_of(line.value);
    frame.line({frame.left, y}, {frame.right, y}, Paint::of(Ink::kMuted), 1.25, true);
    if (!line.label.empty()) labels.emplace_back(y, &line);
  }
  // Labels that would touch are moved down, then up again from the bottom.
  std::sort(labels.begin(), labels.end());
  constexpr double kApart = kTickSize + 3;
  for (size_t i = 1; i < labels.size(); ++i) {
    labels[i].first = std::max(labels[i].first, labels[i - 1].first + kApart);
  }
  double limit = frame.bottom;
  for (size_t i = labels.size(); i-- > 0;) {
    labels[i].first = std::min(labels[i].first, limit);
    limit = labels[i].first - kApart;
  }
  const double room = frame.drawing.width - frame.right - 6;
  for (const auto& [y, line] : labels) {
    frame.text({frame.right + 6, y + kTickSize * 0.36}, fit_text(line->label, kTickSize, room),
               kTickSize, Anchor::kStart, Paint::of(Ink::kMuted));
  }
}

void draw_legend(Frame& frame, const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return;
  constexpr double kRow = 20, kKey = 24, kGap = 18;
  const double room = frame.drawing.width - 2 * kMargin;
  double x = frame.left, y = frame.drawing.height + 14;
  for (const LegendEntry& entry : entries) {
    const std::string name = fit_text(entry.name, kLabelSize, room - kKey);
    const double width = kKey + text_width(name, kLabelSize);
    if (x > frame.left && x + width > frame.drawing.width - kMargin) {
      x = frame.left;
      y += kRow;
    }
    if (x + width > frame.drawing.width - kMargin) x = kMargin;
    draw_key(frame, entry, x, y);
    frame.text({x + kKey, y}, name, kLabelSize, Anchor::kStart, Paint::of(Ink::kText));
    x += width + kGap;
  }
  frame.drawing.height = y + 6;
}

Drawing empty_chart(const std::string& title, double width, double height) {
  Frame frame;
  frame.drawing.width = std::max(width, 160.0);
  frame.drawing.height = std::max(height, 96.0);
  frame.text({kMargin, 4 + kTitleSize},
             fit_text(title, kTitleSize, frame.drawing.width - 2 * kMargin, true), kTitleSize,
             Anchor::kStart, Paint::of(Ink::kText), 0, true);
  frame.text({frame.drawing.width / 2, frame.drawing.height / 2 + 8}, "No values to show.",
             kLabelSize, Anchor::kMiddle, Paint::of(Ink::kMuted));
  frame.drawing.description = (title.empty() ? "" : title + ": ") + "no values to show.";
  return frame.drawing;
}

int series_color(const Series& series, size_t index) {
  return series.color >= 0 ? series.color : static_cast<int>(index % kSeriesColors);
}

std::string range_of(const Series& series) {
  double low = std::nan(""), high = low;
  for (const double value : series.y) {
    if (!can_be_shown(value, false)) continue;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  const std::string name = series.name.empty() ? "" : series.name + ": ";
  if (std::isnan(low)) return name + "no values";
  if (low == high) return name + format_value(low);
  return name + format_value(low) + " to " + format_value(high);
}

std::string describe(const std::string& kind, const std::string& title,
                     const std::vector<Series>& series) {
  constexpr size_t kNamed = 12;
  std::vector<std::string> ranges;
  for (size_t i = 0; i < std::min(series.size(), kNamed); ++i)
    ranges.push_back(range_of(series[i]));
  if (series.size() > kNamed) ranges.push_back(cat(series.size() - kNamed, " more"));
  return kind + (title.empty() ? "" : ", " + title) + ". " + join(ranges, "; ") + ".";
}

std::string value_with_spread(const Series& series, size_t index) {
  const std::string value = format_value(series.y[index]);
  if (series.spread.empty() || !can_be_shown(series.spread[index], false)) return value;
  return value + " ± " + format_value(series.spread[index], 2);
}

void check_series(const std::string& chart, const Series& series, size_t expected) {
  const auto refuse = [&](const char* what, size_t found) {
    fail_usage("Chart '", chart, "', series '", series.name, "': ", found, " values of ", what,
               " where ", expected, " are expected.");
  };
  if (series.y.size() != expected) refuse("y", series.y.size());
  if (!series.spread.empty() && series.spread.size() != expected) {
    refuse("spread", series.spread.size());
  }
}

}  // namespace tost
