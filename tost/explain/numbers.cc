#include "tost/explain/numbers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tost/base/error.h"

namespace tost {

namespace {

using nlohmann::json;
using torch::Tensor;

json nested_values(const double* values, at::IntArrayRef shape,
                   function_ref<double(double)> written) {
  if (shape.empty()) return number_or_null(written(*values));
  const at::IntArrayRef inner = shape.slice(1);
  json list = json::array();
  for (int64_t i = 0; i < shape[0]; ++i) {
    list.push_back(nested_values(values + i * c10::multiply_integers(inner), inner, written));
  }
  return list;
}

}  // namespace

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json nested(const Tensor& tensor, function_ref<double(double)> written) {
  if (!tensor.defined()) return {};
  const Tensor values = tensor.to(torch::kDouble).contiguous();
  return nested_values(values.data_ptr<double>(), values.sizes(), written);
}

json rounded(const Tensor& tensor, int decimals) {
  const double unit = std::pow(10.0, decimals);
  return nested(tensor, [unit](double value) { return std::round(value * unit) / unit; });
}

std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what) {
  for (const int64_t number : wanted) {
    if (number >= 1 && number <= count) continue;
    if (count == 0) fail_usage("There is no ", what, " ", number, "; the model has none.");
    fail_usage("There is no ", what, " ", number, "; the model has ", count, " ", what,
               count == 1 ? "" : "s", ", counted from 1.");
  }
  std::vector<int64_t> chosen = wanted;
  if (chosen.empty()) {
    chosen.resize(size_t(count));
    std::iota(chosen.begin(), chosen.end(), 1);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::vector<int64_t> spread_numbers(int64_t count, int64_t most) {
  const int64_t shown = std::min(count, most);
  if (shown < 1) return {};
  if (shown == 1) return {count};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < shown; ++i) {
    numbers.push_back(1 + (i * (count - 1) + (shown - 1) / 2) / (shown - 1));
  }
  return numbers;
}

}  // namespace tost
