// A diagonal state-space model a channel (S4D, arXiv 2206.11893): what the long-sequence field
// measures itself against. Linear in its input and in the number of tokens.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

// Terms of the chunked form of a diagonal state-space model, see StateSpace. Complex but for skip,
// in float64.
struct StateSpaceTerms {
  torch::Tensor rate;    // Δ A [C, N]
  torch::Tensor input;   // b [C, N]
  torch::Tensor output;  // 2 C [1 or 2, C, N]; two read from both sides
  torch::Tensor skip;    // d [C]

  // Those of `count` channels from `first` on.
  StateSpaceTerms channels(int64_t first, int64_t count) const {
    return {rate.narrow(0, first, count), input.narrow(0, first, count),
            output.narrow(1, first, count), skip.narrow(0, first, count)};
  }
};

// u [C, B, M, Q]: M chunks of Q tokens, zeros from the `tokens`-th on; float32 or float64. Returns
// the same shape. `state` as in StateSpace::forward.
torch::Tensor mix_chunks(const StateSpaceTerms& terms, const torch::Tensor& u, int64_t tokens,
                         torch::Tensor* state);

// x [B, 1, C] → [C, B, 1] float64, with the state before and after.
torch::Tensor single_step(const StateSpaceTerms& terms, const torch::Tensor& x,
                          torch::Tensor& state);

// What each chunk starts from: X_0 = 0, X_{m+1} = exp(rate) X_m + ends_m. ends [C, B, M, N]
// complex; rate [C, N], complex128. Log-depth, linear work.
torch::Tensor states_before(const torch::Tensor& ends, const torch::Tensor& rate);

struct StateSpaceShape {
  int64_t channels = 0;        // C
  int64_t states = 16;         // N complex ones a channel, each standing for its conjugate too
  bool bidirectional = false;  // a second set of output weights reads later tokens
};

// Every channel c with its own step Δ and rates A_n = -exp(log_a_real) + i a_imag, discretised by
// zero-order hold with B = 1:
//   a_n = exp(Δ A_n),  b_n = (a_n - 1) / A_n,  s_t = a s_{t-1} + b x_t,
//   y_t = Σ_n 2 Re(C_n s_t,n) + d x_t.
// Bidirectional, as in S4: y_t also has Σ_n 2 Re(C'_n r_{t+1},n), where r_t = a r_{t+1} + b x_t
// comes from the last token with the same rates, so that no token counts itself twice.
//
// Computed by chunks of 32 to 128 tokens: inside a chunk as a product with the Toeplitz matrix of
// the kernel, between chunks through the states at their ends, which a scan of logarithmic depth
// carries on. Time and memory are linear in the tokens. Powers of a come from float64; the rest is
// float32, or float64 for float64 input.
class StateSpace : public torch::nn::Module {
 public:
  // Rates start as S4D-Lin (-1/2 + iπn), d at 1; log_dt and c are drawn by draw_weights().
  explicit StateSpace(const StateSpaceShape& shape);

  // c complex normal of variance 1, steps log-uniform in [1e-3, 1e-1]; torch's default generator.
  void draw_weights();

  // x [B, T, C], floating → y [C, B, T], float32 (float64 for float64 x): channels first, as the
  // products leave it. `state` [B, C, 2 N] float64 holds s before the first token (undefined:
  // zeros), real and imaginary parts in turn, and becomes s after the last; no gradient flows
  // through it. Null: zeros, nothing is kept. A state goes with one direction only.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* state = nullptr) const;

  // Multiply-adds of a sequence of `tokens` a token and channel.
  static int64_t multiply_adds(const StateSpaceShape& shape, int64_t tokens);

  torch::Tensor log_dt;              // [C] ln Δ; read as if within ln 1e-8 and ln 1e4
  torch::Tensor log_a_real, a_imag;  // [C, N]; log_a_real is read as if within -20 and 20
  torch::Tensor c;  // [1, C, N, 2] real and imaginary parts; bidirectional [2, C, N, 2]
  torch::Tensor d;  // [C]

 private:
  StateSpaceTerms terms() const;
};

}  // namespace tost
