// One transformer block: x + γ₁ mixer(norm x), then x + γ₂ mlp(norm x); with the MLP `ista` the
// second half is n + γ₂ mlp(n), n = norm x.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// The activations that backward computes again, so that they are not stored.
enum class Recompute {
  kNone,
  kMlp,    // the hidden values of each MLP
  kBlock,  // everything within a block: only its input is saved
};

struct BlockConfig {
  int64_t dim = 0;
  std::string mlp = "gelu";  // gelu, ista or tied, see Mlp
  int64_t mlp_hidden = 0;
  double layer_scale = 1;  // initial value of gamma1 and gamma2
  double drop_path = 0;    // stochastic depth of both branches while training
  double dropout = 0;      // of single values of both branches while training
  double norm_eps = 1e-6;
  bool bias = true;  // of the norms and the MLP
  bool tanh_gelu = false;
  // Selects the keys ln_1, ln_2, mlp.c_fc and mlp.c_proj of the official language code, instead of
  // norm1, norm2, mlp.fc1 and mlp.fc2 of the vision code.
  bool language_keys = false;
};

// The second half of a block. `gelu`: fc2(GELU(fc1(x))) with exact (erf) GELU or the approximation
// by tanh. The others have a learned dictionary D [C, M] and thresholds λ [M], and are steps on
//   L(a; x) = |x - D a|² / 2 + λᵀa over codes a ≥ 0.
// `tied`: a = ReLU(Dᵀx - λ), the proximal step of size 1 on L from a = 0; y = D a, the negative
// gradient in x of -|ReLU(Dᵀx - λ)|² / 2 = min over a ≥ 0 of |a|² / 2 + λᵀa - aᵀDᵀx, which is L
// less |x|² / 2 where D is orthonormal. M is mlp_hidden.
// `ista` (CRATE, arXiv 2306.01129): a = ReLU(x + η Dᵀ(x - D x) - η λ), the proximal step of size η
// on L from a = x; y = a - x. M is C, and a replaces the normalised token.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const BlockConfig& config);

  // `codes`, unless null, receives a [.., M]; it stays undefined with gelu.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* codes = nullptr) const;

  std::shared_ptr<Linear> fc1, fc2;    // gelu
  std::shared_ptr<Linear> dictionary;  // weight Dᵀ [M, C], bias -λ
  torch::Tensor step;                  // η [1] of ista, which starts at 0.1 as in CRATE

 private:
  bool tanh_gelu_;
};

// Intermediate results recorded by a traced forward.
struct BlockTrace {
  MixerTrace mixer;
  torch::Tensor mixer_input;   // the normalised tokens that go into the mixer [B, N, C]
  torch::Tensor mixer_output;  // before LayerScale and the residual [B, N, C]
  torch::Tensor mixed;         // after the mixer's residual [B, N, C]
  torch::Tensor codes;         // of the dictionary [B, N, M]; undefined with the MLP gelu
  torch::Tensor output;        // [B, N, C]
};

class Block : public torch::nn::Module {
 public:
  Block(const BlockConfig& config, std::shared_ptr<TokenMixer> mixer);

  // Maps x [B, N, C] to [B, N, C], and fills `trace` unless it is null. The mixer gets `call` with
  // its part of the trace.
  torch::Tensor forward(const torch::Tensor& x, BlockTrace* trace = nullptr, MixerCall call = {});

  std::shared_ptr<LayerNorm> norm1, norm2;
  std::shared_ptr<TokenMixer> attn;
  std::shared_ptr<Mlp> mlp;
  torch::Tensor gamma1, gamma2;  // [C]
  // Calls without gradients, and calls with a trace or a state, ignore this setting.
  Recompute recompute = Recompute::kNone;

 private:
  torch::Tensor dropped(const torch::Tensor& x) const;
  torch::Tensor layers(const torch::Tensor& x, BlockTrace* trace, const MixerCall& call);

  double drop_path_, dropout_;
};

// The blocks of a model, in the order of its layers.
std::vector<std::shared_ptr<Block>> blocks_of(const torch::nn::Module& model);

std::vector<std::string> recompute_names();  // none, mlp, block
// Finds the value with a name; throws a usage Error for an unknown name.
Recompute recompute_from_name(const std::string& name);

// Sets `recompute` of every block in `module`.
void set_recompute(torch::nn::Module& module, Recompute recompute);

// Computes run(x) and saves only x for backward, which calls run(x) again with the same random
// numbers and autocast. Values and gradients have the same bits. Adds gradients of other tensors
// that `run` reads to their .grad, so only backward() works. A second derivative is a usage Error.
// If x needs no gradient, just calls run(x). The graph keeps `run` alive.
torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& run,
                         const torch::Tensor& x);

}  // namespace tost
