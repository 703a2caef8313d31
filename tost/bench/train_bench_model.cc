#include "tost/bench/train_bench_model.h"

namespace tost {

using torch::Tensor;

double StepProduct::flop() const {
  const double taps = kernel > 0 ? double(kernel * kernel) : 1;
  return (input_gradient ? 6 : 4) * double(rows) * double(in) * double(out) * taps;
}

StepFloor::StepFloor(const std::vector<StepProduct>& products, torch::Dtype type,
                     torch::Device device)
    : options_(torch::dtype(type).device(device)) {
  const torch::NoGradGuard no_grad;
  for (const StepProduct& p : products) {
    gflop_ += p.flop() * 1e-9;
    if (p.kernel == 0) {
      maps_.push_back({.x = shared(p.rows, p.in),
                       .w = torch::randn({p.out, p.in}).to(options_),
                       .y = shared(p.rows, p.out),
                       .grad_x = torch::empty({p.rows, p.in}, options_),
                       .grad_w = torch::empty({p.out, p.in}, options_)});
      continue;
    }
    const auto last = [&](const Tensor& t) {
      return t.to(options_).contiguous(torch::MemoryFormat::ChannelsLast);
    };
    const int64_t from = p.side * p.stride;
    convolutions_.push_back({.product = p,
                             .x = last(torch::randn({p.batch, p.in, from, from})),
                             .w = last(torch::randn({p.out, p.in, p.kernel, p.kernel})),
                             .y = last(torch::randn({p.batch, p.out, p.side, p.side}))});
  }
}

Tensor StepFloor::shared(int64_t rows, int64_t width) {
  Tensor& found = rows_[{rows, width}];
  if (!found.defined()) found = torch::randn({rows, width}).to(options_);
  return found;
}

void StepFloor::run_matrices() const {
  for (const Map& m : maps_) {
    Tensor y = m.y;
    at::mm_out(y, m.x, m.w.t());
  }
  for (const Map& m : maps_) {
    Tensor grad_x = m.grad_x, grad_w = m.grad_w;
    at::mm_out(grad_x, m.y, m.w);
    at::mm_out(grad_w, m.y.t(), m.x);
  }
}

void StepFloor::run_convolutions() const {
  for (const Convolution& c : convolutions_) {
    const int64_t stride = c.product.stride, padding = c.product.kernel / 2;
    at::conv2d(c.x, c.w, {}, stride, padding);
    at::convolution_backward(c.y, c.x, c.w, std::nullopt, {stride, stride}, {padding, padding},
                             {1, 1}, false, {0, 0}, 1, {c.product.input_gradient, true, false});
  }
}

void StepFloor::run() const {
  const torch::NoGradGuard no_grad;
  run_matrices();
  run_convolutions();
}

}  // namespace tost
