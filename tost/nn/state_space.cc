#include "tost/nn/state_space.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tost/nn/device_autocast.h"

namespace tost {
namespace {

using torch::Tensor;

// Channels of a group, and the input that is not worth splitting.
constexpr int64_t kGroup = 64, kSmall = int64_t{1} << 20;

// exp(z) - 1 without cancellation at small z.
Tensor complex_expm1(const Tensor& z) {
  const auto x = torch::real(z), y = torch::imag(z);
  const auto half = torch::sin(y / 2);
  return torch::complex(torch::expm1(x) * torch::cos(y) - 2 * half.square(),
                        torch::exp(x) * torch::sin(y));
}

// Of equal chunks, with less than a token of padding for each. A longer chunk has fewer states to
// carry, but matrices of its length squared, which pay off only over many tokens.
int64_t chunk_length(int64_t batch, int64_t tokens) {
  const int64_t longest = batch * tokens <= 8192 ? 32 : batch * tokens <= 32'768 ? 64 : 128;
  const int64_t chunks = (tokens + longest - 1) / longest;
  return (tokens + chunks - 1) / chunks;
}

// x [B, T, C] → [C, B, chunks * length], zeros behind the tokens.
Tensor channels_first(const Tensor& x, int64_t length) {
  const int64_t tokens = x.size(1), padding = (length - tokens % length) % length;
  const auto turned = x.permute({2, 0, 1});
  return padding > 0 ? torch::constant_pad_nd(turned, {0, padding}) : turned.contiguous();
}

}  // namespace

StateSpace::StateSpace(const StateSpaceShape& shape) {
  const int64_t channels = shape.channels, states = shape.states;
  log_dt = register_parameter("log_dt", torch::empty({channels}));
  log_a_real = register_parameter("log_a_real", torch::full({channels, states}, std::log(0.5)));
  a_imag = register_parameter(
      "a_imag", (torch::arange(states) * std::numbers::pi).to(torch::kFloat).repeat({channels, 1}));
  c = register_parameter("c", torch::empty({shape.bidirectional ? 2 : 1, channels, states, 2}));
  d = register_parameter("d", torch::ones({channels}));
}

void StateSpace::draw_weights() {
  const torch::NoGradGuard no_grad;
  log_dt.uniform_(std::log(1e-3), std::log(1e-1));
  c.normal_(0, std::sqrt(0.5));
}

int64_t StateSpace::multiply_adds(const StateSpaceShape& shape, int64_t tokens) {
  const int64_t directions = shape.bidirectional ? 2 : 1;
  return chunk_length(1, tokens) + 4 * shape.states * directions;
}

StateSpaceTerms StateSpace::terms() const {
  const auto dt = log_dt.to(torch::kDouble).clamp(std::log(1e-8), std::log(1e4)).exp();
  const auto rates = torch::complex(-log_a_real.to(torch::kDouble).clamp(-20, 20).exp(),
                                    a_imag.to(torch::kDouble));
  StateSpaceTerms terms;
  terms.rate = dt.unsqueeze(1) * rates;
  terms.input = complex_expm1(terms.rate) / rates;
  terms.output = 2 * torch::view_as_complex(c.to(torch::kDouble).contiguous());
  terms.skip = d.to(torch::kDouble);
  return terms;
}

Tensor StateSpace::forward(const Tensor& x, Tensor* state) const {
  // Matrix products of float32 that autocast would make bfloat16.
  const WithoutAutocast own_types;
  const auto dtype = x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const int64_t batch = x.size(0), tokens = x.size(1), channels = x.size(2);
  if (tokens == 0) return x.permute({2, 0, 1}).to(dtype);
  const auto all = terms();
  if (tokens == 1 && state != nullptr) return single_step(all, x, *state).to(dtype);
  const int64_t length = chunk_length(batch, tokens);
  const auto mix = [&](const StateSpaceTerms& own, const Tensor& of) {
    const auto u = channels_first(of.to(dtype), length);
    const auto y = mix_chunks(own, u.view({of.size(2), batch, -1, length}), tokens, state);
    return y.view({of.size(2), batch, -1}).narrow(2, 0, tokens);
  };
  // Without gradients a group of channels after the other: what lies between takes less memory.
  const bool groups =
      !torch::GradMode::is_enabled() && state == nullptr && channels > kGroup && x.numel() > kSmall;
  if (!groups) return mix(all, x);
  auto y = torch::empty({channels, batch, tokens}, x.options().dtype(dtype));
  for (int64_t first = 0; first < channels; first += kGroup) {
    const int64_t count = std::min(kGroup, channels - first);
    y.narrow(0, first, count).copy_(mix(all.channels(first, count), x.narrow(2, first, count)));
  }
  return y;
}

}  // namespace tost
