#include "tost/data/shape_outlines.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tost {
namespace {

bool disc(double x, double y) {
  return x * x + y * y < 0.81;
}
bool square(double x, double y) {
  return std::max(std::abs(x), std::abs(y)) < 0.76;
}

bool triangle(double x, double y) {
  return y < 0.55 && y > -0.95 + std::numbers::sqrt3 * std::abs(x) * 0.87;
}

bool star(double x, double y) {
  // Five points: the angle folded into half a point, between the outer and the inner radius.
  constexpr double step = std::numbers::pi / 5;
  const double angle = std::abs(std::remainder(std::atan2(x, -y), 2 * step));
  const double radius = std::hypot(x, y);
  constexpr double outer = 1.0, inner = 0.42;
  const double px = radius * std::cos(angle), py = radius * std::sin(angle);
  const double ix = inner * std::cos(step), iy = inner * std::sin(step);
  return (px - outer) * iy - py * (ix - outer) > 0 ? false : true;
}

bool cross(double x, double y) {
  const double a = std::abs(x), b = std::abs(y);
  return std::max(a, b) < 0.92 && std::min(a, b) < 0.3;
}

bool ring(double x, double y) {
  const double r = std::hypot(x, y);
  return r < 0.95 && r > 0.52;
}

bool crescent(double x, double y) {
  return x * x + y * y < 0.9 && (x - 0.42) * (x - 0.42) + y * y > 0.5;
}

bool heart(double x, double y) {
  const double u = x * 1.2, v = 0.12 - y * 1.2;
  const double w = u * u + v * v - 0.78;
  return w * w * w < u * u * v * v * v * 1.3;
}

bool bar(double x, double y) {
  return std::abs(x) < 0.95 && std::abs(y) < 0.33;
}

bool arrow(double x, double y) {
  const bool shaft = y > -0.1 && y < 0.92 && std::abs(x) < 0.24;
  const bool head = y <= 0 && y > -0.95 + 1.15 * std::abs(x);
  return shaft || head;
}

struct Outline {
  const char* name;
  bool (*inside)(double, double);
};

constexpr Outline kOutlines[] = {{"disc", disc},         {"square", square}, {"triangle", triangle},
                                 {"star", star},         {"cross", cross},   {"ring", ring},
                                 {"crescent", crescent}, {"heart", heart},   {"bar", bar},
                                 {"arrow", arrow}};

}  // namespace

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Outline& outline : kOutlines) list.push_back(outline.name);
    return list;
  }();
  return names;
}

bool inside_shape(int shape, double x, double y) {
  return kOutlines[shape].inside(x, y);
}

}  // namespace tost
