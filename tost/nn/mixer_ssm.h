// A diagonal state-space model a channel (S4D, arXiv 2206.11893) and the token mixers around it.
// The best results of the Long Range Arena are based on such models. Linear in its input and in the
// number of tokens.
#pragma once

#include <cstdint>

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// The state before each chunk: X_0 = 0, X_{m+1} = exp(rate) X_m + ends_m. ends [C, B, M, N]
// complex; rate [C, N], complex128. Log-depth, linear work.
torch::Tensor states_before(const torch::Tensor& ends, const torch::Tensor& rate);

struct StateSpaceTerms;

struct StateSpaceShape {
  int64_t channels = 0;        // C
  int64_t states = 16;         // N complex ones a channel, each for its conjugate too
  bool bidirectional = false;  // a second set of output weights reads later tokens
};

// Each channel c has a step Δ and rates A_n = -exp(log_a_real) + i a_imag, discretised by
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
  // through it. Null: zeros, nothing is returned. Only models of one direction take a state.
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

// S4's layer around S4D: y = ssm(x) read from both sides, GELU, and one map C → 2 C whose halves
// are output and gate (GLU). That map is all the mixing of channels the layer has, so it keeps the
// field's form: 2 C² weights, as TSSA's two projections, half of softmax's four. Heads play no
// part. Tokens are read in order.
class SsmMixer : public TokenMixer {
 public:
  explicit SsmMixer(const MixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  void draw_weights() override { ssm->draw_weights(); }

  static StateSpaceShape shape(int64_t dim) { return {.channels = dim, .bidirectional = true}; }

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<Linear> out;  // [2 C, C]
};

// The same layer as a causal mixer, read from the left only: its state does not grow with the
// context. The optional convolution comes before it.
// State: "ssm" [B, C, 2 N] float64, and "conv".
class CausalSsmMixer : public TokenMixer {
 public:
  explicit CausalSsmMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> c_proj;    // [2 C, C]
};

}  // namespace tost
