// The results as charts: time and memory against tokens.
#include <algorithm>
#include <variant>

#include "tost/base/error.h"
#include "tost/report/chart.h"
#include "tost/study/scaling_report.h"

namespace tost {
namespace {

constexpr double kWidth = 520, kHeight = 340, kPanelGap = 24;

void move(PathShape& path, Point by) {
  for (Point& point : path.points) point = {point.x + by.x, point.y + by.y};
}
void move(CircleShape& circle, Point by) {
  circle.center = {circle.center.x + by.x, circle.center.y + by.y};
}
void move(TextShape& text, Point by) {
  text.at = {text.at.x + by.x, text.at.y + by.y};
}
template <typename Box>
void move(Box& box, Point by) {
  box.x += by.x;
  box.y += by.y;
}

void place(Drawing& page, Drawing part, Point at) {
  for (Shape& shape : part.shapes) {
    std::visit([&](auto& s) { move(s, at); }, shape);
    page.shapes.push_back(std::move(shape));
  }
  page.width = std::max(page.width, at.x + part.width + kPanelGap);
  page.height = std::max(page.height, at.y + part.height + kPanelGap);
  page.description += (page.description.empty() ? "" : " ") + part.description;
}

using Costs = std::vector<CostPoint> (*)(const ScalingResult&, const std::string&,
                                         const std::string&);

Drawing panel(const ScalingOptions& options, const ScalingResult& result, const std::string& mode,
              Costs of, const std::string& what, const std::string& label, double unit) {
  LineChart chart;
  chart.title = cat(what, ", ", mode == "train" ? "forward and backward" : "forward");
  chart.x = {.label = "tokens", .logarithmic = true};
  chart.y = {.label = label, .logarithmic = true};
  chart.width = kWidth, chart.height = kHeight;
  for (const auto& mixer : options.mixers) {
    Series series{.name = mixer};
    for (const auto& p : of(result, mixer, mode)) {
      series.x.push_back(double(p.tokens));
      series.y.push_back(p.cost * unit);
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

}  // namespace

Drawing scaling_plot(const ScalingOptions& options, const ScalingResult& result) {
  Drawing page;
  for (const auto& mode : options.modes) {
    const double top = std::max(page.height, kPanelGap);
    place(page, panel(options, result, mode, sequence_seconds, "Time", "ms a sequence", 1e3),
          {kPanelGap, top});
    place(page,
          panel(options, result, mode, sequence_bytes, "Memory", "MiB a sequence", 1.0 / (1 << 20)),
          {2 * kPanelGap + kWidth, top});
  }
  return page;
}

}  // namespace tost
