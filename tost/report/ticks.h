// Where an axis has its ticks, and what they say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tost/report/chart.h"

namespace tost {

struct Tick {
  double value = 0;
  std::string label;  // "" on the small ticks of a logarithmic axis
};

// The stretch of numbers an axis shows, and its ticks in rising order.
struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;

  // 0 at low, 1 at high.
  double place(double value) const;
};

// Values beyond this size are left out, as those that are not finite are: differences of two
// shown values stay finite.
inline constexpr double kLargestShown = 1e300;
bool can_be_shown(double value, bool logarithmic);

// A scale over `values` (those that can be shown) and the ends given by `axis`, with about `count`
// ticks at 1, 2 or 5 times a power of ten.
enum class Ends {
  kTight,  // the ends of the values
  kTicks,  // rounded outwards to ticks
  kZero,   // the same, with 0 a part of it
};
Scale make_scale(const Axis& axis, std::span<const double> values, int count, Ends ends);

// The least of 1, 2 or 5 times a power of ten that is not below `least` > 0.
double nice_step(double least);

std::string format_fixed(double value, int decimals);  // "−0.25"
// With `digits` significant digits: "0.125", "1.2×10⁻⁷", "−3", "12,000"; "no value" for NaN.
std::string format_value(double value, int digits = 4);

}  // namespace tost
