#include "tost/nn/mixer_ssm.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tost/nn/precision.h"

namespace tost {

using torch::Tensor;

// The terms of the chunked form of a diagonal state-space model (see StateSpace), in float64; all
// but skip are complex.
struct StateSpaceTerms {
  torch::Tensor rate;    // Δ A [C, N]
  torch::Tensor input;   // b [C, N]
  torch::Tensor output;  // 2 C [1 or 2, C, N]; two read from both sides
  torch::Tensor skip;    // d [C]

  // The terms for `count` channels from channel `first` on.
  StateSpaceTerms channels(int64_t first, int64_t count) const {
    return {rate.narrow(0, first, count), input.narrow(0, first, count),
            output.narrow(1, first, count), skip.narrow(0, first, count)};
  }
};

namespace {

// The number of channels of a group, and the number of elements above which an input is split into
// groups.
constexpr int64_t kGroup = 64, kSmall = int64_t{1} << 20;

// Computes exp(z) - 1 without cancellation at small z.
Tensor complex_expm1(const Tensor& z) {
  const auto x = torch::real(z), y = torch::imag(z);
  const auto half = torch::sin(y / 2);
  return torch::complex(torch::expm1(x) * torch::cos(y) - 2 * half.square(),
                        torch::exp(x) * torch::sin(y));
}

// The length of equal chunks, with less than a token of padding for each chunk. Longer chunks carry
// fewer states, but need matrices of the length squared, which pay off only over many tokens.
int64_t chunk_length(int64_t batch, int64_t tokens) {
  const int64_t longest = batch * tokens <= 8192 ? 32 : batch * tokens <= 32'768 ? 64 : 128;
  const int64_t chunks = (tokens + longest - 1) / longest;
  return (tokens + chunks - 1) / chunks;
}

// Converts x [B, T, C] to [C, B, chunks * length], with zeros after the tokens.
Tensor channels_first(const Tensor& x, int64_t length) {
  const int64_t tokens = x.size(1), padding = (length - tokens % length) % length;
  const auto turned = x.permute({2, 0, 1});
  return padding > 0 ? torch::constant_pad_nd(turned, {0, padding}) : turned.contiguous();
}

// Computes exp(rate k) [C, count, N] for k = 0 .. count - 1 as products of two tables, with few
// exponentials and small rounding errors.
Tensor powers(const Tensor& rate, int64_t count) {
  constexpr int64_t kFine = 16;
  const auto options = rate.options().dtype(torch::kDouble);
  const int64_t coarse = (count + kFine - 1) / kFine;
  const auto table = [&](int64_t size, int64_t stride) {
    return (rate.unsqueeze(1) * (torch::arange(size, options) * stride).view({1, -1, 1})).exp();
  };
  return (table(coarse, kFine).unsqueeze(2) * table(kFine, 1).unsqueeze(1))
      .flatten(1, 2)
      .narrow(1, 0, count);
}

// Converts complex [..., N] to [..., 2 N] of alternating real and imaginary parts.
Tensor as_real(const Tensor& z) {
  return torch::view_as_real(z).flatten(-2);
}

Tensor as_complex(const Tensor& x) {
  auto sizes = x.sizes().vec();
  sizes.back() /= 2;
  sizes.push_back(2);
  return torch::view_as_complex(x.contiguous().view(sizes));
}

// Converts w [C, Q, N] to [C, 2 N, Q], whose product with the parts of s is Re(w · s).
Tensor reading(const Tensor& w) {
  return as_real(w.conj().resolve_conj()).transpose(1, 2);
}

// The matrices that compute a chunk of Q tokens in D directions.
struct ChunkMatrices {
  Tensor into;   // [C, Q, Q + 2 N D] tokens → their outputs, and the states at the chunk's ends
  Tensor outof;  // [C, 2 N D, Q] states at the chunk's ends → outputs
};

// The kernel K_{i-j} for distances from 1 - Q to Q - 1, as [C, 2 Q - 1].
Tensor whole_kernel(const StateSpaceTerms& terms, const Tensor& impulse) {
  const auto kernel = [&](int64_t direction) {
    return torch::real((terms.output[direction].unsqueeze(1) * impulse).sum(-1));  // [C, Q]
  };
  const int64_t length = impulse.size(1);
  const auto ahead = kernel(0);
  const auto same = ahead.narrow(1, 0, 1) + terms.skip.unsqueeze(1);
  const auto backward = terms.output.size(0) > 1
                            ? kernel(1).narrow(1, 0, length - 1).flip(1)
                            : torch::zeros_like(ahead.narrow(1, 1, length - 1));
  return torch::cat({backward, same, ahead.narrow(1, 1, length - 1)}, 1);
}

ChunkMatrices chunk_matrices(const StateSpaceTerms& terms, int64_t length,
                             torch::ScalarType dtype) {
  const auto all = powers(terms.rate, length + 1);
  const auto from_zero = all.narrow(1, 0, length), from_one = all.narrow(1, 1, length);
  const auto impulse = terms.input.unsqueeze(1) * from_zero;  // b a^l
  // Row j, column i of the matrix is the kernel at distance i - j.
  const auto toeplitz = whole_kernel(terms, impulse).to(dtype).unfold(1, length, 1).flip(1);
  std::vector<Tensor> into{toeplitz, as_real(impulse.flip(1)).to(dtype)};
  std::vector<Tensor> outof{reading(terms.output[0].unsqueeze(1) * from_one).to(dtype)};
  if (terms.output.size(0) > 1) {
    into.push_back(as_real(impulse).to(dtype));
    outof.push_back(reading(terms.output[1].unsqueeze(1) * from_zero.flip(1)).to(dtype));
  }
  return {torch::cat(into, 2), torch::cat(outof, 1)};
}

// The state [B, C, 2 N] after `count` tokens of the last chunk, which began with the state `before`
// [C, B, N].
Tensor state_after(const StateSpaceTerms& terms, const Tensor& tokens, const Tensor& before) {
  const auto all = powers(terms.rate, tokens.size(2) + 1);
  const auto impulse = terms.input.unsqueeze(1) * all.narrow(1, 0, tokens.size(2)).flip(1);
  const auto added = torch::bmm(tokens.to(torch::kDouble), as_real(impulse));  // [C, B, 2 N]
  const auto decayed = before * all.select(1, tokens.size(2)).unsqueeze(1);
  return (added + as_real(decayed)).transpose(0, 1).contiguous().detach();
}

// Converts [B, C, 2 N] to complex [C, B, 1, N] of `dtype`.
Tensor initial_state(const Tensor& state, torch::ScalarType dtype) {
  return as_complex(state.to(dtype)).transpose(0, 1).unsqueeze(2);
}

// Maps y [C, B, T] of StateSpace to [B, T, C] of `dtype` by GELU, `out` and GLU.
Tensor gated_output(Tensor y, const Linear& out, torch::ScalarType dtype) {
  const int64_t channels = y.size(0), batch = y.size(1), tokens = y.size(2);
  // Multiplies a transposed view, so that rows are not copied.
  const auto rows = torch::gelu(y).to(dtype).reshape({channels, batch * tokens}).t();
  y.reset();  // freed before the larger output is made
  return torch::glu(out.forward(rows), -1).view({batch, tokens, -1});
}

}  // namespace

Tensor states_before(const Tensor& ends, const Tensor& rate) {
  const int64_t chunks = ends.size(2);
  if (chunks == 1) return torch::zeros_like(ends);
  const auto factor = rate.exp().to(ends.scalar_type()).unsqueeze(1).unsqueeze(1);
  // Joins pairs of chunks, so that the same problem remains with half as many chunks.
  const int64_t pairs = chunks / 2, firsts = chunks - pairs;
  const auto first = ends.slice(2, 0, chunks, 2), second = ends.slice(2, 1, chunks, 2);
  auto joined = factor * first.narrow(2, 0, pairs) + second;
  if (firsts > pairs) joined = torch::cat({joined, torch::zeros_like(first.narrow(2, 0, 1))}, 2);
  const auto before = states_before(joined, 2 * rate);
  const auto between = factor * before + first;
  return torch::stack({before, between}, 3).flatten(2, 3).narrow(2, 0, chunks);
}

namespace {

// Mixes u [C, B, M, Q], M chunks of Q tokens with zeros after `tokens` tokens, in float32 or
// float64. `state` is that of StateSpace::forward().
Tensor mix_chunks(const StateSpaceTerms& terms, const Tensor& u, int64_t tokens, Tensor* state) {
  const int64_t channels = u.size(0), batch = u.size(1), chunks = u.size(2), length = u.size(3);
  const int64_t states = 2 * terms.rate.size(1), directions = terms.output.size(0);
  const auto matrices = chunk_matrices(terms, length, u.scalar_type());
  const bool carried = state != nullptr && state->defined();
  const auto rows = u.view({channels, batch * chunks, length});
  if (chunks == 1 && state == nullptr) {
    return torch::bmm(rows, matrices.into.narrow(2, 0, length)).view(u.sizes());
  }
  const auto products = torch::bmm(rows, matrices.into);
  const auto rate = terms.rate * double(length);
  const auto ends = [&](int64_t direction) {
    const auto part = products.narrow(2, length + direction * states, states);
    return as_complex(part.contiguous().view({channels, batch, chunks, states}));
  };
  Tensor before = ends(0);
  if (carried) {
    const auto first = initial_state(*state, u.scalar_type());
    before = states_before(torch::cat({first, before}, 2), rate).narrow(2, 1, chunks);
  } else {
    before = states_before(before, rate);
  }
  if (state != nullptr) {
    const int64_t inside = tokens - (chunks - 1) * length;
    *state = state_after(terms, u.select(2, chunks - 1).narrow(2, 0, inside),
                         before.select(2, chunks - 1));
  }
  std::vector<Tensor> starts{as_real(before)};
  if (directions > 1) starts.push_back(as_real(states_before(ends(1).flip(2), rate).flip(2)));
  const auto around = torch::cat(starts, 3).view({channels, batch * chunks, -1});
  return torch::baddbmm(products.narrow(2, 0, length), around, matrices.outof).view(u.sizes());
}

// Maps x [B, 1, C] to [C, B, 1] float64, and updates the state.
Tensor single_step(const StateSpaceTerms& terms, const Tensor& x, Tensor& state) {
  const auto u = x.to(torch::kDouble).permute({2, 0, 1});  // [C, B, 1]
  auto next = terms.input.unsqueeze(1) * u;                // [C, B, N]
  if (state.defined()) {
    next = next + terms.rate.exp().unsqueeze(1) * initial_state(state, torch::kDouble).squeeze(2);
  }
  state = as_real(next).transpose(0, 1).contiguous().detach();
  const auto read = torch::real((terms.output[0].unsqueeze(1) * next).sum(-1, /*keepdim=*/true));
  return read + terms.skip.view({-1, 1, 1}) * u;
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
  // Disables autocast, so that matrix products stay in float32.
  const WithoutAutocast no_autocast;
  const auto dtype = x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const int64_t batch = x.size(0), tokens = x.size(1), channels = x.size(2);
  if (tokens == 0) return x.permute({2, 0, 1}).to(dtype);
  const auto all = terms();
  if (tokens == 1 && state != nullptr) return single_step(all, x, *state).to(dtype);
  const int64_t length = chunk_length(batch, tokens);
  const auto mix = [&](const StateSpaceTerms& added, const Tensor& of) {
    const auto u = channels_first(of.to(dtype), length);
    const auto y = mix_chunks(added, u.view({of.size(2), batch, -1, length}), tokens, state);
    return y.view({of.size(2), batch, -1}).narrow(2, 0, tokens);
  };
  // Without gradients, computes one group of channels after another, so that intermediate tensors
  // are smaller.
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

SsmMixer::SsmMixer(const MixerConfig& config) {
  ssm = register_module("ssm", std::make_shared<StateSpace>(shape(config.dim)));
  out = register_module("out", std::make_shared<Linear>(config.dim, 2 * config.dim, true));
}

Tensor SsmMixer::forward(const Tensor& x, const MixerCall& call) {
  auto tokens = x;
  if (call.lengths.defined()) {
    // Sets the padding to zero, so that both directions see only valid tokens.
    const auto padding =
        torch::arange(x.size(1), call.lengths.options()) >= call.lengths.unsqueeze(1);  // [B, N]
    tokens = x.masked_fill(padding.unsqueeze(2), 0);
  }
  return gated_output(ssm->forward(tokens), *out, x.scalar_type());
}

CausalSsmMixer::CausalSsmMixer(const CausalMixerConfig& config) {
  ssm = register_module("ssm", std::make_shared<StateSpace>(StateSpaceShape{config.dim}));
  c_proj =
      register_module("c_proj", std::make_shared<Linear>(config.dim, 2 * config.dim, config.bias));
  ssm->draw_weights();
  conv = add_conv(*this, config.dim, config);
}

Tensor CausalSsmMixer::forward(const Tensor& x, const MixerCall& call) {
  const auto u = convolved(conv, x, call);
  return gated_output(ssm->forward(u, call.part("ssm")), *c_proj, x.scalar_type());
}

}  // namespace tost
