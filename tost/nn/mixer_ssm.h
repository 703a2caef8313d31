// A diagonal state-space model for each channel (S4D, arXiv 2206.11893), and token mixers around
// it. The best results of the Long Range Arena are based on such models. The model is linear in its
// input, and its time is linear in the number of tokens.
#pragma once

#include <cstdint>

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// Computes the state before each chunk by X_0 = 0, X_{m+1} = exp(rate) X_m + ends_m, for complex
// ends [C, B, M, N] and rate [C, N]. Work is linear and depth logarithmic in M.
torch::Tensor states_before(const torch::Tensor& ends, const torch::Tensor& rate);

struct StateSpaceTerms;

struct StateSpaceShape {
  int64_t channels = 0;        // C
  int64_t states = 16;         // N complex ones a channel, each for its conjugate too
  bool bidirectional = false;  // a second set of output weights reads later tokens
};

// Each channel c has a step Δ and rates A_n = -exp(log_a_real) + i a_imag, which are discretised by
// zero-order hold with B = 1:
//   a_n = exp(Δ A_n),  b_n = (a_n - 1) / A_n,  s_t = a s_{t-1} + b x_t,
//   y_t = Σ_n 2 Re(C_n s_t,n) + d x_t.
// The bidirectional form adds Σ_n 2 Re(C'_n r_{t+1},n) to y_t, as in S4, where r_t = a r_{t+1} + b
// x_t runs back from the last token. With the index t + 1 no token counts twice.
//
// A chunk of 32 to 128 tokens is a product with the Toeplitz matrix of the kernel; a scan of
// logarithmic depth carries states between chunks. Time and memory are linear in the tokens. Powers
// of a are float64; all else is float32, or float64 for float64 input.
class StateSpace : public torch::nn::Module {
 public:
  // Sets the rates to those of S4D-Lin (-1/2 + iπn) and d to 1; draw_weights() draws log_dt and c.
  explicit StateSpace(const StateSpaceShape& shape);

  // Draws c from the complex normal distribution of variance 1, and steps log-uniformly in [1e-3,
  // 1e-1], by torch's default generator.
  void draw_weights();

  // Maps x [B, T, C] to y [C, B, T] float32 (float64 for float64 x). `state` [B, C, 2 N] float64,
  // with alternating real and imaginary parts, holds s before the first token (undefined or null:
  // zeros), and gets s after the last token, without gradient. Only models of one direction take a
  // state.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* state = nullptr) const;

  // The multiply-adds for each token and channel of a sequence of `tokens` tokens.
  static int64_t multiply_adds(const StateSpaceShape& shape, int64_t tokens);

  torch::Tensor log_dt;              // [C] ln Δ; read as if within ln 1e-8 and ln 1e4
  torch::Tensor log_a_real, a_imag;  // [C, N]; log_a_real is read as if within -20 and 20
  torch::Tensor c;  // [1, C, N, 2] real and imaginary parts; bidirectional [2, C, N, 2]
  torch::Tensor d;  // [C]

 private:
  StateSpaceTerms terms() const;
};

// S4's layer around S4D: a bidirectional y = ssm(x), GELU, and one map C → 2 C whose halves are
// output and gate (GLU). Only the map C → 2 C mixes channels. The layer has 2 C² weights, as many
// as TSSA and half as many as softmax attention. There are no heads.
class SsmMixer : public TokenMixer {
 public:
  explicit SsmMixer(const MixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  void draw_weights() override { ssm->draw_weights(); }

  static StateSpaceShape shape(int64_t dim) { return {.channels = dim, .bidirectional = true}; }

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<Linear> out;  // [2 C, C]
};

// The layer as a causal mixer, which reads from the left only, after the optional convolution. The
// state, "ssm" [B, C, 2 N] float64 and "conv", does not grow with the context.
class CausalSsmMixer : public TokenMixer {
 public:
  explicit CausalSsmMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> c_proj;    // [2 C, C]
};

}  // namespace tost
