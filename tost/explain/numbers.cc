#include "tost/explain/numbers.h"

#include <cmath>

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

}  // namespace tost
