#include "tost/data/pathfinder_stamps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <set>

namespace tost {
namespace {

constexpr int64_t kFine = 2;  // fine pixels a pixel: the antialiasing of every official size

// Added before rounding: a place that is a rounding error off an integer becomes that integer.
constexpr int64_t kFar = 1000;

struct Plane {
  int64_t side;
  std::vector<double> values;  // 0 ... 255

  explicit Plane(int64_t n) : side(n), values(static_cast<size_t>(n * n)) {}
  double& at(int64_t y, int64_t x) { return values[static_cast<size_t>(y * side + x)]; }
};

double lanczos(double x) {
  if (x == 0) return 1;
  if (std::abs(x) >= 3) return 0;
  const double t = std::numbers::pi * x;
  return 3 * std::sin(t) * std::sin(t / 3) / (t * t);
}

double stamp_byte(double value) {
  return std::clamp(std::floor(value + 0.5), 0.0, 255.0);
}

// Rows of `from` shortened to `width`, turned by 90 degrees, so that two calls do both axes.
Plane shorten(Plane& from, int64_t rows, int64_t width) {
  const double scale = static_cast<double>(from.side) / static_cast<double>(width);
  Plane to(from.side);
  for (int64_t x = 0; x < width; ++x) {
    const double center = (static_cast<double>(x) + 0.5) * scale;
    const auto low = std::max<int64_t>(0, std::llround(center - 3 * scale));
    const auto high = std::min<int64_t>(from.side, std::llround(center + 3 * scale));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t k = low; k < high; ++k) {
      weights.push_back(lanczos((static_cast<double>(k) + 0.5 - center) / scale));
      sum += weights.back();
    }
    for (int64_t y = 0; y < rows; ++y) {
      double value = 0;
      for (int64_t k = low; k < high; ++k) {
        value += weights[static_cast<size_t>(k - low)] / sum * from.at(y, k);
      }
      to.at(x, y) = stamp_byte(value);
    }
  }
  return to;
}

// By a Lanczos filter of three lobes, rounded to bytes after each axis, as bytes are resized.
Stamp shrink(Plane fine, int64_t reach) {
  const int64_t side = 2 * reach + 1;
  Plane once = shorten(fine, fine.side, side);
  Plane twice = shorten(once, side, side);
  Stamp stamp{reach, {}};
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      stamp.values.push_back(twice.at(y, x) / 255);
    }
  }
  return stamp;
}

// Bresenham's line.
void draw_thin(Plane& plane, int64_t y, int64_t x, Step to) {
  const int64_t wide = std::abs(to.dx), high = std::abs(to.dy);
  const int64_t right = to.dx > 0 ? 1 : -1, down = to.dy > 0 ? 1 : -1;
  const int64_t steps = std::max(wide, high), slow = std::min(wide, high);
  int64_t error = 2 * slow - steps;
  for (int64_t k = 0; k <= steps; ++k) {
    plane.at(y, x) = 255;
    if (error >= 0) {
      wide > high ? y += down : x += right;
      error -= 2 * steps;
    }
    error += 2 * slow;
    wide > high ? x += right : y += down;
  }
}

void draw_wide(Plane& plane, int64_t middle, Step to, int64_t width) {
  const double length = std::hypot(to.dy, to.dx);
  for (int64_t y = 0; y < plane.side; ++y) {
    for (int64_t x = 0; x < plane.side; ++x) {
      const double dy = static_cast<double>(y - middle), dx = static_cast<double>(x - middle);
      const double along =
          (dy * static_cast<double>(to.dy) + dx * static_cast<double>(to.dx)) / length;
      const double across =
          (dy * static_cast<double>(to.dx) - dx * static_cast<double>(to.dy)) / length;
      if (along < -0.5 || along > length + 0.5) continue;
      if (std::abs(across) <= static_cast<double>(width) / 2) plane.at(y, x) = 255;
    }
  }
}

std::vector<Step> disc(int64_t radius) {
  std::vector<Step> steps;
  for (int64_t dy = -radius; dy <= radius; ++dy) {
    for (int64_t dx = -radius; dx <= radius; ++dx) {
      if (dy * dy + dx * dx <= radius * radius) steps.push_back({dy, dx});
    }
  }
  return steps;
}

Plane dilate(Plane& plane, int64_t radius) {
  Plane wider(plane.side);
  const std::vector<Step> kernel = disc(radius);
  for (int64_t y = 0; y < plane.side; ++y) {
    for (int64_t x = 0; x < plane.side; ++x) {
      for (const Step& step : kernel) {
        const int64_t v = y + step.dy, u = x + step.dx;
        if (v < 0 || u < 0 || v >= plane.side || u >= plane.side) continue;
        wider.at(y, x) = std::max(wider.at(y, x), plane.at(v, u));
      }
    }
  }
  return wider;
}

Dash make_dash(const PathfinderRules& rules, int64_t gap, double angle) {
  const int64_t reach = rules.dash_length + static_cast<int64_t>(std::ceil(rules.thickness)) + gap;
  const auto width = static_cast<int64_t>(std::llround(rules.thickness * kFine));
  Plane fine(2 * kFine * reach + 1);
  const int64_t middle = kFine * reach;
  const Step to = reach_out(angle, static_cast<double>(rules.dash_length * kFine));
  if (width <= 1) {
    draw_thin(fine, middle, middle, to);
  } else {
    draw_wide(fine, middle, to, width);
  }
  Plane room = dilate(fine, gap * kFine);
  return {shrink(std::move(fine), reach), shrink(std::move(room), reach)};
}

std::vector<Step> kernel_of(const Stamp& room, int64_t most) {
  std::vector<Step> kernel;
  for (int64_t dy = -room.reach; dy <= room.reach; ++dy) {
    for (int64_t dx = -room.reach; dx <= room.reach; ++dx) {
      // The reference centres its kernel one pixel off.
      const Step step{dy + 1, dx + 1};
      const bool inside = std::max(std::abs(step.dy), std::abs(step.dx)) <= most;
      if (inside && room.at(dy, dx) >= 1) kernel.push_back(step);
    }
  }
  return kernel;
}

bool reaches_into(const std::vector<Step>& kernel, int64_t down, int64_t right) {
  return std::any_of(kernel.begin(), kernel.end(),
                     [&](const Step& step) { return step.dy * down >= 0 && step.dx * right >= 0; });
}

bool stays_at_corners(const std::vector<Step>& kernel) {
  return reaches_into(kernel, 1, 1) && reaches_into(kernel, 1, -1) && reaches_into(kernel, -1, 1) &&
         reaches_into(kernel, -1, -1);
}

Stamp make_marker(double radius) {
  const auto reach = static_cast<int64_t>(std::ceil(radius)) + 3;
  Plane fine(kFine * (2 * reach + 1));
  for (int64_t y = 0; y < fine.side; ++y) {
    for (int64_t x = 0; x < fine.side; ++x) {
      if (std::hypot(y - kFine * reach, x - kFine * reach) <= radius * kFine) fine.at(y, x) = 255;
    }
  }
  return shrink(std::move(fine), reach);
}

// Whole pixels on a circle around a whole pixel, rounded down, in steps of one pixel.
std::vector<Step> circle_of(int64_t radius) {
  const double r = static_cast<double>(radius);
  const double step = 360 / (2 * r * std::numbers::pi);
  std::set<std::pair<int64_t, int64_t>> found;
  for (double degrees = 0; degrees < 360; degrees += step) {
    const double angle = degrees * std::numbers::pi / 180;
    found.emplace(static_cast<int64_t>(kFar + r * std::sin(angle)) - kFar,
                  static_cast<int64_t>(kFar + r * std::cos(angle)) - kFar);
  }
  std::vector<Step> steps;
  for (const auto& [dy, dx] : found) steps.push_back({dy, dx});
  return steps;
}

}  // namespace

Step reach_out(double angle, double distance) {
  const auto up = [](double v) { return static_cast<int64_t>(std::ceil(kFar + v)) - kFar; };
  return {up(distance * std::sin(angle)), up(distance * std::cos(angle))};
}

PathfinderStamps::PathfinderStamps(const PathfinderRules& rules, int64_t gap_)
    : gap(gap_), around(disc(gap_)), marker(make_marker(rules.marker_radius)) {
  const int64_t radius = rules.dash_length + gap;
  for (int64_t degree = -180; degree < 180; ++degree) {
    Direction direction;
    direction.angle = static_cast<double>(degree) * std::numbers::pi / 180;
    direction.dash = make_dash(rules, gap, direction.angle);
    direction.kernel = kernel_of(direction.dash.room, radius);
    direction.usable = stays_at_corners(direction.kernel);
    degrees.push_back(std::move(direction));
  }
  circle = circle_of(radius);
  for (const Step& step : circle) {
    const double angle = std::atan2(static_cast<double>(step.dy), static_cast<double>(step.dx));
    angles.push_back(angle);
    dashes.push_back(make_dash(rules, gap, angle + (angle < 0 ? 1 : -1) * std::numbers::pi));
  }
}

}  // namespace tost
