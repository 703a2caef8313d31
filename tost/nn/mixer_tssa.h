// Token-statistics mixers (arXiv 2412.17810): one projection in, second moments, one projection
// out.
#pragma once

#include <tuple>

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"

namespace tost {

// The projections shared by the family. Keys are the official ones: `qkv` (despite its name one d x
// d map) and `to_out.0`.
class TokenStatisticsMixer : public TokenMixer {
 public:
  explicit TokenStatisticsMixer(const MixerConfig& config);

  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  MixerMaps maps() const override { return {qkv.get(), out_.get()}; }
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override { return qkv->forward(x); }

  std::shared_ptr<Linear> qkv;                // [C, C]
  std::shared_ptr<torch::nn::Module> to_out;  // holds "0"

 protected:
  int64_t heads_;

 private:
  std::shared_ptr<Linear> out_;
};

// The paper's operator in the form of the official code, with a learned temperature per head.
class TssaMixer : public TokenStatisticsMixer {
 public:
  explicit TssaMixer(const MixerConfig& config);
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;

  torch::Tensor temp;  // [H, 1], starts at 1

 private:
  std::tuple<torch::Tensor, torch::Tensor> mix(const torch::Tensor& w,
                                               const torch::Tensor& lengths) const;
};

// The same with membership fixed to 1/H: what do learned groups buy?
class UniformMixer : public TokenStatisticsMixer {
 public:
  using TokenStatisticsMixer::TokenStatisticsMixer;
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;
};

// Both projections and nothing between them: tokens never meet. The floor of every comparison, at
// the parameter count of uniform.
class NoMixer : public TokenStatisticsMixer {
 public:
  using TokenStatisticsMixer::TokenStatisticsMixer;
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;
  // It has no heads.
  torch::Tensor subspaces() const override { return {}; }
  torch::Tensor project(const torch::Tensor&) const override { return {}; }
};

}  // namespace tost
