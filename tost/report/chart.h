// Charts as drawings: lines, bars, heat maps. Axes, ticks, legends and descriptions are made here;
// the caller gives numbers and names.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tost/report/color_map.h"
#include "tost/report/drawing.h"

namespace tost {

// Points that are not finite are left out of lines and bars, and leave a gap.
struct Series {
  std::string name{};       // in the legend; "" keeps it out
  std::vector<double> x{};  // lines: same length as y
  std::vector<double> y{};
  std::vector<double> spread{};  // half width of the error bar or band; empty: none
  int color = -1;                // number of the series colour; -1: its place in the list
  bool dashed = false;
  bool dotted_points = true;  // a mark at every point
};

struct ReferenceLine {
  double value = 0;
  std::string label{};
};

struct Axis {
  std::string label{};
  // NaN: from the data; y is rounded outwards to a tick.
  double low = std::nan(""), high = std::nan("");
  bool logarithmic = false;  // needs positive values; others are left out
  bool integer = false;      // ticks only at integers (layers)
};

struct LineChart {
  std::string title{};
  Axis x{}, y{};
  std::vector<Series> series{};
  std::vector<ReferenceLine> horizontal{};
  bool bands = true;                 // spread as a band, else as error bars
  double width = 640, height = 320;  // a legend comes below, beyond the height
};

struct BarChart {
  std::string title{};
  std::vector<std::string> groups{};  // along x
  std::vector<Series> series{};       // y has one value a group; x is not used
  Axis y{};
  std::vector<ReferenceLine> horizontal{};
  // Values as dots with error bars on an axis that need not begin at 0, as fits comparisons of
  // accuracies; false: bars from 0.
  bool dots = false;
  // Values of a group, none negative, one upon the other instead of side by side; without spread.
  bool stacked = false;
  double width = 640, height = 320;
};

struct HeatMap {
  std::string title{};
  int64_t rows = 0, columns = 0;
  std::vector<double> values{};  // [rows * columns]
  double low = 0, high = 1;      // ends of the colours; a bar at the side shows them
  ColorMap map = ColorMap::kSequential;
  std::vector<std::string> row_names{}, column_names{};  // empty: numbers
  bool show_values = false;  // in the cells, which then have room for them
  std::string row_label{}, column_label{};
  double cell = 14;  // side of a cell
};

// Empty charts (no finite point) say so in words. Names and titles of any length keep inside the
// drawing: long ones are cut with an ellipsis.
Drawing draw(const LineChart& chart);
Drawing draw(const BarChart& chart);
Drawing draw(const HeatMap& chart);

}  // namespace tost
