#include "tost/report/ticks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tost {
namespace {

std::string superscript(int number) {
  constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text;
  for (const char c : std::to_string(number)) text += c == '-' ? "⁻" : kDigits[c - '0'];
  return text;
}

// Thin separators from five digits on.
std::string grouped(std::string text) {
  const size_t first = text.find_first_of("0123456789");
  size_t end = text.find('.');
  if (end == std::string::npos) end = text.size();
  if (end - first < 5) return text;
  for (size_t at = end; at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

int exponent_of(double value) {
  return static_cast<int>(std::floor(std::log10(std::abs(value))));
}

std::string power_of_ten(double mantissa, int decimals, int exponent) {
  return format_fixed(mantissa, decimals) + "×10" + superscript(exponent);
}

std::string log_label(double value) {
  const int exponent = static_cast<int>(std::lround(std::floor(std::log10(value) + 1e-9)));
  const double mantissa = value / std::pow(10, exponent);
  if (exponent >= -3 && exponent <= 4) return grouped(format_fixed(value, std::max(0, -exponent)));
  if (std::abs(mantissa - 1) < 1e-6) return "10" + superscript(exponent);
  return power_of_ten(mantissa, 0, exponent);
}

void add_linear_ticks(Scale& scale, double step) {
  const double largest = std::max(std::abs(scale.low), std::abs(scale.high));
  const int exponent = largest > 0 ? exponent_of(largest) : 0;
  const bool powers = exponent >= 6 || exponent <= -4;
  const double unit = powers ? std::pow(10, exponent) : 1;
  const int decimals =
      std::clamp(-static_cast<int>(std::floor(std::log10(step / unit) + 1e-9)), 0, 12);
  const double first = std::ceil(scale.low / step - 1e-6),
               last = std::floor(scale.high / step + 1e-6);
  for (double k = first; k <= last && scale.ticks.size() < 100; ++k) {
    const double value = k * step;
    const std::string label = k == 0   ? "0"
                              : powers ? power_of_ten(value / unit, decimals, exponent)
                                       : grouped(format_fixed(value, decimals));
    scale.ticks.push_back({value, label});
  }
}

void make_linear(Scale& scale, const Axis& axis, int count, bool tight) {
  const double size = std::max(std::abs(scale.low), std::abs(scale.high));
  // All values (nearly) equal: some room around them.
  if (scale.high - scale.low <= size * 1e-12 || scale.high - scale.low < 1e-290) {
    const double room = axis.integer ? 1 : size < 1e-290 ? 1 : size * 0.1;
    if (!std::isfinite(axis.low)) scale.low -= room;
    if (!std::isfinite(axis.high)) scale.high += room;
    if (!(scale.high > scale.low)) scale.high = scale.low + room;
  }
  double step = nice_step((scale.high - scale.low) / count);
  if (axis.integer) step = std::max(step, 1.0);
  if (!tight && !axis.integer) {
    if (!std::isfinite(axis.low)) scale.low = std::floor(scale.low / step + 1e-6) * step;
    if (!std::isfinite(axis.high)) scale.high = std::ceil(scale.high / step - 1e-6) * step;
  }
  add_linear_ticks(scale, step);
}

void make_logarithmic(Scale& scale, const Axis& axis, int count, bool tight) {
  double low = std::log10(scale.low), high = std::log10(scale.high);
  const bool fine = high - low < 2.5;
  const auto outwards = [fine](double value, bool up) {
    const double whole = std::floor(value + (up ? -1e-9 : 1e-9));
    if (!fine) return up ? whole + 1 : whole;
    double edge = up ? whole + 1 : whole;
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double candidate = whole + std::log10(factor);
      if (up && candidate >= value - 1e-9) return candidate;
      if (!up && candidate <= value + 1e-9) edge = candidate;
    }
    return edge;
  };
  tight = tight && high - low > 1e-9;
  if (!tight && !std::isfinite(axis.low)) low = outwards(low, false);
  if (!tight && !std::isfinite(axis.high)) high = outwards(high, true);
  if (!(high > low)) high = low + 1;
  scale.low = std::pow(10, low);
  scale.high = std::pow(10, high);
  const int every = std::max(1, static_cast<int>(std::ceil((high - low) / count)));
  for (double power = std::floor(low + 1e-9); power <= high + 1e-9; ++power) {
    for (int digit = 1; digit < 10; ++digit) {
      const double place = power + std::log10(digit);
      if (place < low - 1e-9 || place > high + 1e-9) continue;
      const bool named =
          digit == 1 ? std::fmod(std::abs(power), every) == 0 : fine && (digit == 2 || digit == 5);
      if (!named && every > 1) continue;
      const double value = digit * std::pow(10, power);
      scale.ticks.push_back({value, named ? log_label(value) : ""});
    }
  }
}

}  // namespace

double nice_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string format_fixed(double value, int decimals) {
  char buffer[400];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  std::string text(buffer, end.ptr);
  if (text.find_first_not_of("-0.") == std::string::npos && text[0] == '-') text.erase(0, 1);
  if (text[0] == '-') text.replace(0, 1, "−");
  return text;
}

double Scale::place(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

bool can_be_shown(double value, bool logarithmic) {
  return std::abs(value) <= kLargestShown && (!logarithmic || value > 1e-300);
}

Scale make_scale(const Axis& axis, std::span<const double> values, int count, Ends ends) {
  Scale scale;
  scale.logarithmic = axis.logarithmic;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto include = [&](double value) {
    if (!can_be_shown(value, axis.logarithmic)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const double value : values) include(value);
  if (ends == Ends::kZero) include(0);
  if (can_be_shown(axis.low, axis.logarithmic)) low = axis.low;
  if (can_be_shown(axis.high, axis.logarithmic)) high = axis.high;
  const double least = axis.logarithmic ? 0.1 : 0;
  if (!std::isfinite(low)) low = std::isfinite(high) ? std::min(high, least) : least;
  if (!std::isfinite(high) || high < low) high = axis.logarithmic ? 10 * low : low + 1;
  scale.low = low;
  scale.high = high;
  count = std::max(count, 2);
  if (axis.logarithmic) {
    make_logarithmic(scale, axis, count, ends == Ends::kTight);
  } else {
    make_linear(scale, axis, count, ends == Ends::kTight);
  }
  return scale;
}

std::string format_value(double value, int digits) {
  if (std::isnan(value)) return "no value";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  if (value == 0) return "0";
  // The exponent after rounding: 9.9996 with four digits is 10.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 std::chars_format::scientific, digits - 1);
  const std::string text(buffer, end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent > 6) {
    std::string mantissa = text.substr(0, e);
    if (mantissa.find('.') != std::string::npos) {
      mantissa.erase(mantissa.find_last_not_of('0') + 1);
      if (mantissa.back() == '.') mantissa.pop_back();
    }
    if (mantissa[0] == '-') mantissa.replace(0, 1, "−");
    return mantissa + "×10" + superscript(exponent);
  }
  std::string plain = format_fixed(value, std::max(0, digits - 1 - exponent));
  if (plain.find('.') != std::string::npos) {
    plain.erase(plain.find_last_not_of('0') + 1);
    if (plain.back() == '.') plain.pop_back();
  }
  return grouped(plain);
}

}  // namespace tost
