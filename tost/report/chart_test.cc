#include "tost/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tost/base/error.h"
#include "tost/report/well_formed_test_util.h"

namespace tost {
namespace {

const double kNan = std::nan("");

Series line(const std::string& name, std::vector<double> y) {
  Series series;
  series.name = name;
  for (size_t i = 0; i < y.size(); ++i) series.x.push_back(static_cast<double>(i));
  series.y = std::move(y);
  return series;
}

LineChart line_chart(std::vector<Series> series) {
  LineChart chart;
  chart.title = "Curve";
  chart.x.label = "layer";
  chart.y.label = "rate";
  chart.series = std::move(series);
  return chart;
}

BarChart bar_chart(size_t groups, size_t series) {
  BarChart chart;
  chart.title = "Bars";
  chart.y.label = "accuracy";
  for (size_t g = 0; g < groups; ++g) chart.groups.push_back("group " + std::to_string(g));
  for (size_t s = 0; s < series; ++s) {
    Series one;
    one.name = "series " + std::to_string(s);
    for (size_t g = 0; g < groups; ++g) {
      one.y.push_back(static_cast<double>(s + g) - 1);
      one.spread.push_back(0.5);
    }
    chart.series.push_back(one);
  }
  return chart;
}

template <typename Wanted>
std::vector<Wanted> shapes(const Drawing& drawing) {
  std::vector<Wanted> found;
  for (const Shape& shape : drawing.shapes) {
    if (const auto* one = std::get_if<Wanted>(&shape)) found.push_back(*one);
  }
  return found;
}

bool says(const Drawing& drawing, const std::string& text) {
  const auto texts = shapes<TextShape>(drawing);
  return std::any_of(texts.begin(), texts.end(),
                     [&](const TextShape& one) { return one.text == text; });
}

// Everything lies inside, the SVG is well formed, and a picture of it is not blank.
void check(const Drawing& drawing) {
  const auto inside = [&](Point p) {
    EXPECT_GE(p.x, -0.5);
    EXPECT_LE(p.x, drawing.width + 0.5);
    EXPECT_GE(p.y, -0.5);
    EXPECT_LE(p.y, drawing.height + 0.5);
  };
  for (const PathShape& path : shapes<PathShape>(drawing)) {
    for (const Point& point : path.points) inside(point);
  }
  for (const CircleShape& circle : shapes<CircleShape>(drawing)) inside(circle.center);
  for (const RectShape& rect : shapes<RectShape>(drawing)) {
    inside({rect.x, rect.y});
    inside({rect.x + rect.width, rect.y + rect.height});
  }
  for (const TextShape& text : shapes<TextShape>(drawing)) {
    inside(text.at);
    if (text.degrees != 0) continue;
    const double width = text_width(text.text, text.size, text.bold);
    const double share = text.anchor == Anchor::kStart ? 0 : text.anchor == Anchor::kEnd ? 1 : 0.5;
    inside({text.at.x - share * width, text.at.y});
    inside({text.at.x + (1 - share) * width, text.at.y});
  }
  EXPECT_FALSE(drawing.description.empty());
  EXPECT_FALSE(testing::elements_of(to_svg(drawing)).empty());
  EXPECT_EQ(to_svg(drawing), to_svg(drawing));
  const Image image = to_image(drawing, 1);
  EXPECT_TRUE(
      std::any_of(image.pixels.begin(), image.pixels.end(), [](uint8_t v) { return v < 128; }));
}

TEST(LineChart, DrawsPointsWhereTheScaleSays) {
  LineChart chart = line_chart({line("a", {0, 10, 5})});
  const Drawing drawing = draw(chart);
  check(drawing);
  const auto marks = shapes<CircleShape>(drawing);
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_NEAR(marks[2].center.y, (marks[0].center.y + marks[1].center.y) / 2, 1e-9);
  EXPECT_NEAR(marks[1].center.x, (marks[0].center.x + marks[2].center.x) / 2, 1e-9);
  EXPECT_LT(marks[1].center.y, marks[0].center.y);
  EXPECT_EQ(marks[1].title, "a, 1: 10");
  EXPECT_TRUE(says(drawing, "Curve"));
  EXPECT_TRUE(says(drawing, "layer"));
  EXPECT_TRUE(says(drawing, "rate"));
  EXPECT_EQ(drawing.description, "Line chart, Curve. a: 0 to 10.");
}

TEST(LineChart, TheEndsOfALogarithmicAxisAreShown) {
  for (const double last : {300.0, 1000.0, 4096.0, 5e5, 1048576.0}) {
    Series series = line("a", {1, 2, 3});
    series.x = {128, 200, last};
    series.dotted_points = true;
    LineChart chart = line_chart({series});
    chart.x.logarithmic = true;
    EXPECT_EQ(shapes<CircleShape>(draw(chart)).size(), 3u) << last;
  }
}

TEST(LineChart, GapsWherePointsCannotBeShown) {
  const Drawing drawing = draw(line_chart({line("a", {1, 2, kNan, 3, 1.0 / 0.0, 4, 5})}));
  check(drawing);
  EXPECT_EQ(shapes<CircleShape>(drawing).size(), 5u);
  std::vector<size_t> lengths;
  for (const PathShape& path : shapes<PathShape>(drawing)) {
    if (path.stroke.ink == Ink::kSeries && path.width == 2) lengths.push_back(path.points.size());
  }
  EXPECT_EQ(lengths, (std::vector<size_t>{2, 2}));
}

TEST(LineChart, EmptyOnesSaySo) {
  for (const LineChart& chart :
       {line_chart({}), line_chart({line("a", {})}), line_chart({line("a", {kNan, kNan})})}) {
    const Drawing drawing = draw(chart);
    check(drawing);
    EXPECT_TRUE(says(drawing, "No values to show."));
  }
  BarChart bars = bar_chart(0, 1);
  EXPECT_TRUE(says(draw(bars), "No values to show."));
  EXPECT_TRUE(says(draw(HeatMap{}), "No values to show."));
}

TEST(LineChart, OddDataStaysInside) {
  for (const bool logarithmic : {false, true}) {
    for (const std::vector<double>& y : {std::vector<double>{7},
                                         {3, 3, 3},
                                         {0, 0},
                                         {1e300, -1e300},
                                         {1e-200, 1e-190},
                                         {1e12, 2e12},
                                         {-5, 5},
                                         {1, 1 + 1e-14},
                                         {5e-324, 1}}) {
      LineChart chart = line_chart({line("a", y)});
      chart.y.logarithmic = logarithmic;
      check(draw(chart));
    }
  }
}

TEST(LineChart, ClipsToGivenEnds) {
  LineChart chart = line_chart({line("a", {0.5, 3, -2, 0.5})});
  chart.y.low = 0;
  chart.y.high = 1;
  chart.series[0].spread = {9, 9, 9, 9};
  const Drawing drawing = draw(chart);
  check(drawing);
  double top = 1e9, bottom = 0;
  for (const PathShape& path : shapes<PathShape>(drawing)) {
    if (path.stroke.ink != Ink::kGrid) continue;
    top = std::min(top, path.points[0].y);
    bottom = std::max(bottom, path.points[0].y);
  }
  for (const PathShape& path : shapes<PathShape>(drawing)) {
    if (path.stroke.ink != Ink::kSeries && path.fill.ink != Ink::kSeries) continue;
    if (path.width == 2.5) continue;  // the key of the legend
    for (const Point& point : path.points) {
      EXPECT_GE(point.y, top - 1e-6);
      EXPECT_LE(point.y, bottom + 1e-6);
    }
  }
  EXPECT_EQ(shapes<CircleShape>(drawing).size(), 2u);
}

TEST(LineChart, SpreadAsBandOrBars) {
  LineChart chart = line_chart({line("a", {1, 2, 3})});
  chart.series[0].spread = {0.5, kNan, 0.5};
  const auto bands = [](const Drawing& drawing) {
    const auto paths = shapes<PathShape>(drawing);
    return std::count_if(paths.begin(), paths.end(),
                         [](const PathShape& path) { return path.fill.ink == Ink::kSeries; });
  };
  EXPECT_EQ(bands(draw(chart)), 1);
  EXPECT_EQ(shapes<CircleShape>(draw(chart))[0].title, "a, 0: 1 ± 0.5");
  chart.bands = false;
  EXPECT_EQ(bands(draw(chart)), 0);
  check(draw(chart));
}

TEST(LineChart, ThousandsOfPointsAreThinnedWithoutLosingPeaks) {
  Series series = line("a", std::vector<double>(50000, 1.0));
  series.y[23456] = 9;
  const Drawing drawing = draw(line_chart({series}));
  check(drawing);
  size_t points = 0;
  double top = 1e9, base = 0;
  for (const PathShape& path : shapes<PathShape>(drawing)) {
    if (path.width != 2) continue;
    points += path.points.size();
    for (const Point& point : path.points) {
      top = std::min(top, point.y);
      base = std::max(base, point.y);
    }
  }
  EXPECT_LT(points, 3000u);
  EXPECT_GT(base - top, 150);
  EXPECT_TRUE(shapes<CircleShape>(drawing).empty());
}

TEST(LineChart, ReferencesHaveLabelsThatDoNotTouch) {
  LineChart chart = line_chart({line("a", {0, 1})});
  chart.horizontal = {{0.98, "ceiling"}, {0.97, "chance"}, {0.0, "floor"}, {kNan, "none"}};
  const Drawing drawing = draw(chart);
  check(drawing);
  std::vector<double> heights;
  for (const TextShape& text : shapes<TextShape>(drawing)) {
    if (text.text == "ceiling" || text.text == "chance") heights.push_back(text.at.y);
    EXPECT_NE(text.text, "none");
  }
  ASSERT_EQ(heights.size(), 2u);
  EXPECT_GE(std::abs(heights[0] - heights[1]), 12);
}

TEST(LineChart, LongNamesAndManySeriesKeepInside) {
  const std::string name(200, 'w');
  std::vector<Series> series;
  for (int i = 0; i < 20; ++i) series.push_back(line(name, {1.0 * i, 2.0 * i}));
  LineChart chart = line_chart(series);
  chart.title = chart.x.label = chart.y.label = name;
  chart.horizontal = {{3, name}};
  check(draw(chart));
  chart.width = 200;
  check(draw(chart));
}

TEST(LineChart, RefusesLengthsThatDiffer) {
  LineChart chart = line_chart({line("a", {1, 2})});
  chart.series[0].x.pop_back();
  EXPECT_THROW(draw(chart), Error);
  chart = line_chart({line("a", {1, 2})});
  chart.series[0].spread = {1};
  EXPECT_THROW(draw(chart), Error);
}

TEST(BarChart, BarsBeginAtZero) {
  const Drawing drawing = draw(bar_chart(3, 2));
  check(drawing);
  std::vector<RectShape> bars;
  for (const RectShape& rect : shapes<RectShape>(drawing)) {
    if (!rect.title.empty()) bars.push_back(rect);
  }
  ASSERT_EQ(bars.size(), 6u);
  const double zero = bars[0].y;                        // series 0, group 0: −1, hangs from 0
  EXPECT_NEAR(bars[2].height, 0, 1e-9);                 // series 0, group 1: 0
  EXPECT_NEAR(bars[5].y + bars[5].height, zero, 1e-9);  // series 1, group 2: 2, stands on 0
  EXPECT_NEAR(bars[5].height, 2 * bars[0].height, 1e-9);
  EXPECT_EQ(bars[5].title, "group 2, series 1: 2 ± 0.5");
}

TEST(BarChart, StackedValuesStandUponEachOther) {
  BarChart chart = bar_chart(2, 3);
  for (Series& series : chart.series) series.spread.clear();
  chart.series[0].y = {60, 50};
  chart.series[1].y = {30, kNan};
  chart.series[2].y = {10, 25};
  chart.stacked = true;
  const Drawing drawing = draw(chart);
  check(drawing);
  std::vector<RectShape> bars;
  for (const RectShape& rect : shapes<RectShape>(drawing)) {
    if (!rect.title.empty()) bars.push_back(rect);
  }
  ASSERT_EQ(bars.size(), 5u);  // nothing for what is not finite
  for (const size_t i : {1u, 2u, 4u}) {
    EXPECT_NEAR(bars[i].y + bars[i].height, bars[i - 1].y, 1e-9);
    EXPECT_EQ(bars[i].x, bars[i - 1].x);
  }
  EXPECT_NEAR(bars[0].height, 2 * bars[1].height, 1e-9);
  EXPECT_NEAR(bars[3].height, 2 * bars[4].height, 1e-9);
  chart.series[1].y.pop_back();
  EXPECT_THROW(draw(chart), Error);
}

TEST(BarChart, DotsNeedNoZero) {
  BarChart chart = bar_chart(4, 3);
  for (Series& series : chart.series) {
    for (double& value : series.y) value = 90 + value / 10;
    series.spread.assign(4, 0.05);
  }
  chart.dots = true;
  const Drawing drawing = draw(chart);
  check(drawing);
  EXPECT_FALSE(says(drawing, "0"));
  EXPECT_GE(shapes<CircleShape>(drawing).size(), 12u);
}

TEST(BarChart, ManyGroupsAndLongNames) {
  for (const size_t groups : {1u, 7u, 60u, 400u}) {
    for (const bool dots : {false, true}) {
      BarChart chart = bar_chart(groups, 2);
      chart.dots = dots;
      chart.groups[groups / 2] = std::string(300, 'W');
      check(draw(chart));
    }
  }
  BarChart chart = bar_chart(3, 2);
  chart.series[0].y = {kNan, -1, 2};
  check(draw(chart));
  chart.series[0].y.pop_back();
  EXPECT_THROW(draw(chart), Error);
}

HeatMap heat_map(int64_t rows, int64_t columns) {
  HeatMap chart;
  chart.title = "Overlap";
  chart.rows = rows;
  chart.columns = columns;
  for (int64_t i = 0; i < rows * columns; ++i) {
    chart.values.push_back(static_cast<double>(i) / static_cast<double>(rows * columns));
  }
  return chart;
}

TEST(HeatMap, CellsHaveTheColorsOfTheirValues) {
  HeatMap chart = heat_map(2, 3);
  chart.values[4] = kNan;
  chart.row_names = {"a", "b"};
  const Drawing drawing = draw(chart);
  check(drawing);
  const auto cells = shapes<RectShape>(drawing);
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[0].fill, Paint::of_rgb(color_of(ColorMap::kSequential, 0)));
  EXPECT_EQ(cells[3].fill, Paint::of_rgb(color_of(ColorMap::kSequential, 0.5)));
  EXPECT_EQ(cells[4].fill, Paint::of_rgb(color_of(ColorMap::kSequential, kNan)));
  EXPECT_EQ(cells[3].title, "b, 0: 0.5");
  EXPECT_EQ(cells[4].title, "b, 1: no value");
  EXPECT_EQ(cells[4].x, cells[1].x);
}

TEST(HeatMap, SizesNamesAndValues) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {3, 40}, {200, 150}}) {
    check(draw(heat_map(rows, columns)));
  }
  HeatMap chart = heat_map(3, 3);
  chart.show_values = true;
  chart.row_label = chart.column_label = "head";
  chart.row_names = chart.column_names = {"x", std::string(200, 'w'), "<b>"};
  const Drawing drawing = draw(chart);
  check(drawing);
  EXPECT_TRUE(says(drawing, "0.33"));
  EXPECT_EQ(shapes<ImageShape>(draw(heat_map(200, 150))).size(), 2u);  // the cells and the colours
  chart.row_names.pop_back();
  EXPECT_THROW(draw(chart), Error);
  chart = heat_map(2, 2);
  chart.values.pop_back();
  EXPECT_THROW(draw(chart), Error);
}

}  // namespace
}  // namespace tost
