#include "tost/explain/numbers.h"

#include <algorithm>
#include <cmath>

#include "tost/base/text.h"

namespace tost {
namespace {

using nlohmann::json;
using torch::Tensor;

template <class Written>
json nested_values(const double* values, at::IntArrayRef shape, Written written) {
  if (shape.empty()) return number_or_null(written(*values));
  const at::IntArrayRef inner = shape.slice(1);
  json list = json::array();
  for (int64_t i = 0; i < shape[0]; ++i) {
    list.push_back(nested_values(values + i * c10::multiply_integers(inner), inner, written));
  }
  return list;
}

template <class Written>
json nested_with(const Tensor& tensor, Written written) {
  if (!tensor.defined()) return {};
  const Tensor values = tensor.to(torch::kDouble).contiguous();
  return nested_values(values.data_ptr<double>(), values.sizes(), written);
}

}  // namespace

std::vector<double> to_vector(const Tensor& values) {
  const auto flat = values.to(torch::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

std::string range_of(const Tensor& values) {
  const double low = values.min().item<double>(), high = values.max().item<double>();
  int digits = 2;
  // Two digits of the difference, too.
  if (high > low && high > 0) digits += std::max(0, int(std::ceil(-std::log10(1 - low / high))));
  digits = std::min(digits, 9);
  return shown(low, digits) + " – " + shown(high, digits);
}

std::string shown(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  const bool whole = size < 1e6 && size >= std::pow(10.0, digits) - 0.5;
  return whole ? format_text("%.0f", value) : format_text("%.*g", digits, value);
}

std::string near_one(double value) {
  return value < 1 && value > 1 - 1e-3 ? "1 − " + shown(1 - value, 2) : shown(value, 4);
}

std::string with_deviation(double mean, double deviation, int64_t count, int digits) {
  if (!std::isfinite(mean) || count < 2) return shown(mean, digits);
  return shown(mean, digits) + " ± " + shown(deviation, 2);
}

std::string percent(double share, int decimals) {
  if (!std::isfinite(share)) return "–";
  return format_text("%.*f %%", decimals, 100 * share);
}

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json nested(const Tensor& tensor, double (*written)(double)) {
  return nested_with(tensor, written);
}

json rounded(const Tensor& tensor, int decimals) {
  const double unit = std::pow(10.0, decimals);
  return nested_with(tensor, [unit](double value) { return std::round(value * unit) / unit; });
}

std::vector<double> layer_axis(size_t count) {
  std::vector<double> axis;
  for (size_t i = 1; i <= count; ++i) axis.push_back(double(i));
  return axis;
}

TableCell number_cell(const std::string& text, bool strong) {
  return {.text = text, .number = true, .strong = strong};
}

Image map_image(const torch::Tensor& values, int64_t rows, int64_t columns, double low, double high,
                ColorMap map) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  return heat_image(to_vector(values), rows, columns, low, high, map);
}

Image groups_image(const torch::Tensor& groups, int64_t rows, int64_t columns) {
  const auto flat = groups.contiguous();
  return group_image({flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()}, rows,
                     columns);
}

}  // namespace tost
