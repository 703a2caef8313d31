#include <algorithm>
#include <cmath>

#include "tost/report/chart_frame.h"

namespace tost {
namespace {

using Run = std::vector<size_t>;  // neighbouring points that can all be shown

// Whether a value lies on the axis; one at its end may miss it by a rounding of the scale.
bool on_axis(const Scale& scale, double value) {
  const double slack = 1e-9 * (scale.high - scale.low);
  return value >= scale.low - slack && value <= scale.high + slack;
}

// The stretches of a series between the points that cannot be shown.
std::vector<Run> runs_of(const LineChart& chart, const Frame& frame, const Series& series) {
  std::vector<Run> runs(1);
  for (size_t i = 0; i < series.y.size(); ++i) {
    const bool shown = can_be_shown(series.x[i], chart.x.logarithmic) &&
                       can_be_shown(series.y[i], chart.y.logarithmic) &&
                       on_axis(frame.x, series.x[i]);
    if (shown) {
      runs.back().push_back(i);
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

// Of many points in one column of pixels the first, the extremes and the last.
std::vector<Point> thinned(const std::vector<Point>& points, double width) {
  if (static_cast<double>(points.size()) < 4 * width) return points;
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size();) {
    size_t end = i, lowest = i, highest = i;
    while (end < points.size() && std::floor(points[end].x) == std::floor(points[i].x)) {
      if (points[end].y < points[lowest].y) lowest = end;
      if (points[end].y > points[highest].y) highest = end;
      ++end;
    }
    size_t before = points.size();
    for (const size_t k : {i, std::min(lowest, highest), std::max(lowest, highest), end - 1}) {
      if (k != before) kept.push_back(points[k]);
      before = k;
    }
    i = end;
  }
  return kept;
}

// Where the way from a to b crosses the height y.
Point crossing(Point a, Point b, double y) {
  return {a.x + (b.x - a.x) * ((y - a.y) / (b.y - a.y)), y};
}

// The parts of a line between the heights top and bottom.
std::vector<std::vector<Point>> clipped(const std::vector<Point>& points, double top,
                                        double bottom) {
  std::vector<std::vector<Point>> parts;
  bool open = false;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    Point a = points[i], b = points[i + 1];
    const bool outside = std::max(a.y, b.y) < top || std::min(a.y, b.y) > bottom;
    if (outside) {
      open = false;
      continue;
    }
    const Point from = a, to = b;
    if (a.y < top || a.y > bottom) a = crossing(from, to, a.y < top ? top : bottom);
    if (b.y < top || b.y > bottom) b = crossing(from, to, b.y < top ? top : bottom);
    if (!open || a.y != from.y) parts.push_back({a});
    parts.back().push_back(b);
    open = b.y == to.y;
  }
  return parts;
}

std::vector<Point> points_of(const Frame& frame, const Series& series, const Run& run) {
  std::vector<Point> points;
  for (const size_t i : run) points.push_back({frame.x_of(series.x[i]), frame.y_of(series.y[i])});
  return points;
}

// Height of y + share * spread, kept in the plot.
double edge(const Frame& frame, const Series& series, size_t i, double share) {
  const double spread = can_be_shown(series.spread[i], false) ? series.spread[i] : 0;
  const double value = series.y[i] + share * spread;
  if (!can_be_shown(value, frame.y.logarithmic)) return share < 0 ? frame.bottom : frame.top;
  return std::clamp(frame.y_of(value), frame.top, frame.bottom);
}

void draw_band(Frame& frame, const Series& series, const Run& run, int color) {
  PathShape band{.closed = true, .fill = Paint::of_series(color, 0.16)};
  for (const size_t i : run)
    band.points.push_back({frame.x_of(series.x[i]), edge(frame, series, i, 1)});
  for (size_t k = run.size(); k-- > 0;) {
    band.points.push_back({frame.x_of(series.x[run[k]]), edge(frame, series, run[k], -1)});
  }
  frame.drawing.shapes.push_back(std::move(band));
}

void draw_error_bars(Frame& frame, const Series& series, const Run& run, int color) {
  for (const size_t i : run) {
    const double x = frame.x_of(series.x[i]);
    const double high = edge(frame, series, i, 1), low = edge(frame, series, i, -1);
    const Paint paint = Paint::of_series(color, 0.75);
    frame.line({x, low}, {x, high}, paint, 1.25);
    frame.line({x - 3, low}, {x + 3, low}, paint, 1.25);
    frame.line({x - 3, high}, {x + 3, high}, paint, 1.25);
  }
}

void draw_marks(Frame& frame, const Series& series, const Run& run, int color) {
  for (const size_t i : run) {
    if (!frame.y_inside(series.y[i])) continue;
    const std::string name = series.name.empty() ? "" : series.name + ", ";
    frame.drawing.shapes.push_back(CircleShape{
        .center = {frame.x_of(series.x[i]), frame.y_of(series.y[i])},
        .radius = 3,
        .fill = Paint::of_series(color),
        .title = name + format_value(series.x[i]) + ": " + value_with_spread(series, i)});
  }
}

void draw_series(Frame& frame, const LineChart& chart, const Series& series, int color) {
  const std::vector<Run> runs = runs_of(chart, frame, series);
  const double width = frame.right - frame.left;
  const bool marks = series.dotted_points && static_cast<double>(series.y.size()) <= width / 6;
  for (const Run& run : runs) {
    if (!series.spread.empty()) {
      if (chart.bands && run.size() > 1) {
        draw_band(frame, series, run, color);
      } else {
        draw_error_bars(frame, series, run, color);
      }
    }
  }
  for (const Run& run : runs) {
    for (std::vector<Point>& part :
         clipped(thinned(points_of(frame, series, run), width), frame.top, frame.bottom)) {
      frame.drawing.shapes.push_back(PathShape{.points = std::move(part),
                                               .stroke = Paint::of_series(color),
                                               .width = 2,
                                               .dashed = series.dashed});
    }
    if (marks || run.size() == 1) draw_marks(frame, series, run, color);
  }
}

void draw_x_axis(Frame& frame, const Axis& axis) {
  frame.line({frame.left, frame.bottom}, {frame.right, frame.bottom}, Paint::of(Ink::kMuted));
  double free_from = -1e9;
  for (const Tick& tick : frame.x.ticks) {
    const double x = frame.x_of(tick.value);
    frame.line({x, frame.bottom}, {x, frame.bottom + (tick.label.empty() ? 3 : 5)},
               Paint::of(Ink::kMuted));
    const double half = text_width(tick.label, kTickSize) / 2;
    if (tick.label.empty() || x - half < free_from) continue;
    const double middle = std::min(x, frame.drawing.width - half);
    frame.text({middle, frame.bottom + 18}, tick.label, kTickSize, Anchor::kMiddle,
               Paint::of(Ink::kMuted));
    free_from = x + half + 6;
  }
  if (!axis.label.empty()) {
    const double width = frame.right - frame.left;
    frame.text({(frame.left + frame.right) / 2, frame.bottom + 36},
               fit_text(axis.label, kLabelSize, width), kLabelSize, Anchor::kMiddle,
               Paint::of(Ink::kMuted));
  }
}

Scale x_scale(const LineChart& chart, const std::vector<double>& values, double width) {
  // Fewer ticks until their labels have room.
  for (int count = std::max(2, static_cast<int>(width / 42));; --count) {
    Scale scale = make_scale(chart.x, values, count, Ends::kTight);
    double needed = 0;
    for (const Tick& tick : scale.ticks) {
      if (!tick.label.empty()) needed += text_width(tick.label, kTickSize) + 14;
    }
    if (needed <= width || count <= 2) return scale;
  }
}

}  // namespace

Drawing draw(const LineChart& chart) {
  std::vector<double> xs, ys;
  for (const Series& series : chart.series) {
    check_series(chart.title, series, series.x.size());
    for (size_t i = 0; i < series.y.size(); ++i) {
      if (!can_be_shown(series.x[i], chart.x.logarithmic) ||
          !can_be_shown(series.y[i], chart.y.logarithmic)) {
        continue;
      }
      xs.push_back(series.x[i]);
      ys.push_back(series.y[i]);
      if (series.spread.empty() || !can_be_shown(series.spread[i], false)) continue;
      ys.push_back(series.y[i] + series.spread[i]);
      ys.push_back(series.y[i] - series.spread[i]);
    }
  }
  if (xs.empty()) return empty_chart(chart.title, chart.width, chart.height);
  const double below = chart.x.label.empty() ? 26 : 44;
  Frame frame =
      begin_frame({chart.title, chart.y.label, chart.horizontal, chart.width, chart.height, below},
                  chart.y, ys, Ends::kTicks);
  frame.x = x_scale(chart, xs, frame.right - frame.left);
  draw_x_axis(frame, chart.x);
  draw_references(frame, chart.horizontal);
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    draw_series(frame, chart, series, series_color(series, i));
    using Key = LegendEntry::Key;
    if (!series.name.empty()) {
      legend.push_back(
          {series.name, series_color(series, i), series.dashed ? Key::kDashedLine : Key::kLine});
    }
  }
  draw_legend(frame, legend);
  frame.drawing.description = describe("Line chart", chart.title, chart.series);
  return std::move(frame.drawing);
}

}  // namespace tost
