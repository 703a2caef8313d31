// What charts with two axes share: title, axes with ticks and grid, reference lines, legend.
#pragma once

#include <string>
#include <vector>

#include "tost/report/chart.h"
#include "tost/report/ticks.h"

namespace tost {

inline constexpr double kTickSize = 11;
inline constexpr double kLabelSize = 12;
inline constexpr double kTitleSize = 14;

struct LegendEntry {
  std::string name;
  int color = 0;
  enum class Key { kLine, kDashedLine, kSquare, kDot } key = Key::kLine;
};

// A chart being drawn. Sides of the plot in units of the drawing; begin_* and the axes set them.
struct Frame {
  Drawing drawing;
  double left = 0, right = 0, top = 0, bottom = 0;
  Scale x, y;

  double x_of(double value) const;  // with a small inset at both ends
  double y_of(double value) const;
  bool y_inside(double value) const { return value >= y.low && value <= y.high; }

  void text(Point at, const std::string& text, double size, Anchor anchor, Paint paint,
            double degrees = 0, bool bold = false);
  void line(Point from, Point to, Paint paint, double width = 1, bool dashed = false);
};

// Space for the parts around the plot, and the title and label of the y axis, which stand above.
struct FrameParts {
  std::string title;
  std::string y_label;
  std::vector<ReferenceLine> horizontal;
  double width = 0, height = 0;
  double below = 0;  // what ticks and label of the x axis need
};

// Frame with the y axis: grid, ticks and the plot's sides. `values`: all that the axis is to show.
Frame begin_frame(const FrameParts& parts, const Axis& y, std::vector<double> values, Ends ends);

// After the data: dashed lines with their labels in the right margin.
void draw_references(Frame& frame, const std::vector<ReferenceLine>& lines);
// Below everything else; makes the drawing higher by the rows it needs.
void draw_legend(Frame& frame, const std::vector<LegendEntry>& entries);
// For a chart without any value.
Drawing empty_chart(const std::string& title, double width, double height);

int series_color(const Series& series, size_t index);
// "accuracy: 0.1 to 0.9": for descriptions.
std::string range_of(const Series& series);
std::string describe(const std::string& kind, const std::string& title,
                     const std::vector<Series>& series);
// "0.93 ± 0.01"
std::string value_with_spread(const Series& series, size_t index);
void check_series(const std::string& chart, const Series& series, size_t expected);

}  // namespace tost
