#include "tost/kinds/vision/fourier_position.h"

#include <numbers>

namespace tost {
namespace {

constexpr int64_t kAxisChannels = FourierPosition::kChannels / 2;

// [n, 32] of one axis.
torch::Tensor axis_code(int64_t n) {
  const auto fp64 = torch::dtype(torch::kFloat64);
  auto position =
      torch::arange(1, n + 1, fp64) * (2 * std::numbers::pi / (static_cast<double>(n) + 1e-6));
  auto period = torch::pow(1e4, torch::arange(0, kAxisChannels, 2, fp64) / kAxisChannels);
  auto angle = position.unsqueeze(1) / period;  // [n, 16]
  return torch::stack({angle.sin(), angle.cos()}, /*dim=*/2).flatten(1);
}

}  // namespace

FourierPosition::FourierPosition(int64_t dim) {
  auto options = torch::nn::Conv2dOptions(kChannels, dim, 1);
  token_projection =
      register_module("token_projection", std::make_shared<torch::nn::Conv2dImpl>(options));
}

torch::Tensor FourierPosition::table(int64_t rows, int64_t columns) {
  auto y = axis_code(rows).unsqueeze(1).expand({rows, columns, kAxisChannels});
  auto x = axis_code(columns).unsqueeze(0).expand({rows, columns, kAxisChannels});
  return torch::cat({y, x}, 2).flatten(0, 1).to(torch::kFloat32);
}

torch::Tensor FourierPosition::cached_table(int64_t rows, int64_t columns) {
  const std::lock_guard lock(mutex_);
  const auto& weight = token_projection->weight;
  if (!table_.defined() || rows_ != rows || columns_ != columns ||
      table_.device() != weight.device() || table_.dtype() != weight.dtype()) {
    // A table made under inference mode could never serve training later.
    const c10::InferenceMode plain(false);
    table_ = table(rows, columns).to(weight.options());
    rows_ = rows;
    columns_ = columns;
  }
  return table_;
}

torch::Tensor FourierPosition::forward(int64_t rows, int64_t columns) {
  return torch::linear(cached_table(rows, columns), token_projection->weight.flatten(1),
                       token_projection->bias);
}

}  // namespace tost
