#include "tost/ops/plain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <vector>

namespace tost {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using torch::autograd::variable_list;

at::ScalarType tssa_accumulation_dtype(at::ScalarType w) {
  return w == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor valid_tokens(const Tensor& lengths, const c10::SymInt& tokens) {
  return at::arange(tokens, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1);
}

namespace {

// Intermediate values of the formula for tokens x [B, H, N, P]. Sums go over the tokens that a
// token sees: [B, H, 1, n] in the bidirectional, [B, H, N, n] in the causal form.
struct Formula {
  Tensor q, pi, weighted;          // x^2, [B, H, N], Pi q
  Tensor energy, moment, members;  // E, S, N
  Tensor y;                        // [B, H, N, P]
};

// Computes TSSA by two functions that depend on the direction: `sum` adds up terms [B, H, N, n]
// over the tokens that a token sees, and `logits` computes a [B, H, N] from q and E. `padding` [B,
// 1, N] may be undefined.
template <class Sum, class Logits>
Formula formula(const Tensor& x, const Tensor& temp, const Tensor& padding, const Sum& sum,
                const Logits& logits) {
  Formula f;
  f.q = x.square();
  f.energy = sum({f.q})[0];
  f.pi = at::softmax(logits(f.q, f.energy) * temp.to(x.scalar_type()), 1);
  if (padding.defined()) f.pi = f.pi.masked_fill(padding, 0);
  const auto pi = f.pi.unsqueeze(-1);
  f.weighted = pi * f.q;
  const auto sums = sum({f.weighted, pi});
  f.members = sums[1];
  f.moment = sums[0] / (f.members + 1e-8);
  f.y = -(x * pi) / (1 + f.moment);
  return f;
}

// Convert w [B, N, C] to [B, H, N, P] of the sums' dtype, and back.
Tensor by_head(const Tensor& w, const c10::SymInt& heads) {
  return w.to(tssa_accumulation_dtype(w.scalar_type()))
      .reshape_symint({w.sym_size(0), w.sym_size(1), heads, w.sym_size(2) / heads})
      .transpose(1, 2);
}
Tensor by_token(const Tensor& split, const Tensor& w) {
  return split.transpose(1, 2).reshape_symint(w.sym_sizes()).to(w.scalar_type());
}

// Sums several tensors over all processes, by one call of `add`.
template <class Add>
std::vector<Tensor> exchanged(const std::vector<Tensor>& sums, const Add& add) {
  std::vector<int64_t> widths;
  for (const Tensor& each : sums) widths.push_back(each.size(-1));
  return add(at::cat(sums, -1)).split_with_sizes(widths, -1);
}

Formula both_directions(const Tensor& w, const Tensor& temp, const OptionalTensor& lengths,
                        const TokenSums* places) {
  check_tssa_inputs(w, temp, lengths);
  auto x = by_head(w, temp.sym_size(0));
  Tensor padding;
  if (is_defined(lengths)) {
    padding = valid_tokens(*lengths, w.sym_size(1)).logical_not().unsqueeze(1);
    x = x.masked_fill(padding.unsqueeze(-1), 0);
  }
  const auto sum = [&](const std::vector<Tensor>& terms) {
    std::vector<Tensor> sums;
    for (const Tensor& each : terms) sums.push_back(each.sum(-2, /*keepdim=*/true));
    return places == nullptr ? sums : exchanged(sums, places->total);
  };
  return formula(x, temp, padding, sum, [&](const Tensor&, const Tensor& energy) {
    // An infinite divisor removes channels of zeros from the logits and all their derivatives.
    const double infinity = std::numeric_limits<double>::infinity();
    const auto norm = energy.masked_fill(energy.eq(0), infinity).sqrt().clamp_min(1e-12);
    return (x / norm).square().sum(-1);
  });
}

// The biases [H, T, 1] of `tokens` positions from `position` on; 0 beyond denom_bias.
Tensor bias_of_tokens(const Tensor& denom_bias, const c10::SymInt& position,
                      const c10::SymInt& tokens) {
  const auto length = denom_bias.sym_size(1);
  const auto begin = position.min(length);
  const auto count = tokens.min(length - begin);
  return at::constant_pad_nd_symint(denom_bias.narrow_symint(1, begin, count),
                                    {0, 0, 0, tokens - count});
}

// Reshapes sums [B, C] or [B, H] of a state to [B, H, 1, n].
Tensor per_head(const Tensor& sums, const c10::SymInt& heads) {
  return sums.reshape_symint({sums.sym_size(0), heads, 1, sums.sym_size(1) / heads});
}

// Computes the causal form; `before` [B, 2 C + H] is the state before the first token.
Formula causal(const Tensor& w, const Tensor& temp, const Tensor& denom_bias, const Tensor& before,
               const c10::SymInt& position, const TokenSums* places) {
  const auto channels = w.sym_size(2), heads = temp.sym_size(0);
  const auto x = by_head(w, heads);
  // The sums of q, Pi q and Pi, in the order in which the formula needs them.
  const auto states = before.split_with_sizes_symint({channels, channels, heads}, 1);
  size_t next = 0;
  const auto sum = [&](const std::vector<Tensor>& terms) {
    std::vector<Tensor> sums, here;
    for (const Tensor& each : terms) {
      sums.push_back(at::cumsum(each, 2) + per_head(states[next++], heads).to(each.scalar_type()));
      if (places != nullptr) here.push_back(each.sum(2, /*keepdim=*/true));
    }
    if (places == nullptr) return sums;
    const auto earlier = exchanged(here, [&](const Tensor& all) { return places->before(all); });
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + earlier[i];
    return sums;
  };
  const auto bias = bias_of_tokens(denom_bias.to(x.scalar_type()), position, w.sym_size(1));
  return formula(x, temp, {}, sum, [&](const Tensor& q, const Tensor& energy) {
    return (q / energy.clamp_min(1e-12) + bias).sum(-1);  // the bias acts P times
  });
}

Tensor state_or_zeros(const Tensor& w, const Tensor& temp, const OptionalTensor& state) {
  if (is_defined(state)) return state->detach();
  return at::zeros_symint({w.sym_size(0), 2 * w.sym_size(2) + temp.sym_size(0)},
                          w.options().dtype(at::kDouble));
}

// Returns the state after the last token.
Tensor state_after(const Formula& f, const Tensor& before) {
  const auto total = [&](const Tensor& terms) {
    return terms.detach().sum(at::IntArrayRef{2}, false, at::kDouble).flatten(1);
  };
  return before + at::cat({total(f.q), total(f.weighted), total(f.pi)}, 1);
}

}  // namespace

std::tuple<Tensor, Tensor> tssa_plain(const Tensor& w, const Tensor& temp,
                                      const OptionalTensor& lengths) {
  const auto [y, pi] = tssa_plain_part(w, temp, lengths, nullptr);
  return {y.contiguous(), pi.contiguous()};
}

std::tuple<Tensor, Tensor> tssa_plain_part(const Tensor& w, const Tensor& temp,
                                           const OptionalTensor& lengths, const TokenSums* sums) {
  const Formula f = both_directions(w, temp, lengths, sums);
  return {by_token(f.y, w), f.pi};
}

std::tuple<Tensor, Tensor, Tensor> tssa_causal_plain(const Tensor& w, const Tensor& temp,
                                                     const Tensor& denom_bias,
                                                     const OptionalTensor& state,
                                                     c10::SymInt position) {
  const auto [y, pi, after] = tssa_causal_plain_part(w, temp, denom_bias, state, position, nullptr);
  return {y.contiguous(), pi.contiguous(), after};
}

std::tuple<Tensor, Tensor, Tensor> tssa_causal_plain_part(const Tensor& w, const Tensor& temp,
                                                          const Tensor& denom_bias,
                                                          const OptionalTensor& state,
                                                          const c10::SymInt& position,
                                                          const TokenSums* sums) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  const auto before = state_or_zeros(w, temp, state);
  const Formula f = causal(w, temp, denom_bias, before, position, sums);
  return {by_token(f.y, w), f.pi, state_after(f, before)};
}

Tensor tssa_uniform(const Tensor& w, int64_t heads, const OptionalTensor& lengths,
                    const TokenSums* sums) {
  check_tssa_heads(w, heads);
  check_tssa_lengths(w, lengths);
  auto wide = w.to(tssa_accumulation_dtype(w.scalar_type()));
  if (is_defined(lengths)) {
    wide = wide.masked_fill(valid_tokens(*lengths, w.size(1)).logical_not().unsqueeze(-1), 0);
  }
  auto sum = wide.square().sum(1, /*keepdim=*/true);
  auto count = is_defined(lengths) ? lengths->to(sum.scalar_type())
                                   : at::full({w.size(0)}, w.size(1), sum.options());
  count = count.view({-1, 1, 1});
  if (sums != nullptr) {
    const auto all = exchanged({sum, count}, sums->total);
    sum = all[0], count = all[1];
  }
  // The mean over tokens; the 1e-8 guards against N = 0.
  const auto moment = sum / (count + 1e-8 * double(heads));
  return (wide / (-heads * (1 + moment))).to(w.scalar_type());
}

variable_list plain_gradients(const variable_list& outputs, const variable_list& inputs,
                              const variable_list& grads) {
  variable_list ends, starts, wanted, result(inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (grads[i].defined()) ends.push_back(outputs[i]), starts.push_back(grads[i]);
  }
  for (const auto& input : inputs) {
    if (input.defined() && input.requires_grad()) wanted.push_back(input);
  }
  const auto found = torch::autograd::grad(ends, wanted, starts, /*retain_graph=*/true,
                                           /*create_graph=*/true, /*allow_unused=*/true);
  auto next = found.begin();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) result[i] = *next++;
  }
  return result;
}

}  // namespace tost
