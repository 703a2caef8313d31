#include "tost/nn/block.h"

#include <utility>

#include "tost/nn/branch.h"

namespace tost {

Block::Block(const BlockConfig& config, std::shared_ptr<TokenMixer> mixer)
    : drop_path_(config.drop_path), dropout_(config.dropout) {
  norm1 = register_module("norm1", std::make_shared<LayerNorm>(config.dim));
  attn = register_module("attn", std::move(mixer));
  norm2 = register_module("norm2", std::make_shared<LayerNorm>(config.dim));
  mlp = register_module("mlp", std::make_shared<Mlp>(config.dim, config.mlp_hidden));
  gamma1 = register_parameter("gamma1", torch::full({config.dim}, config.layer_scale));
  gamma2 = register_parameter("gamma2", torch::full({config.dim}, config.layer_scale));
}

torch::Tensor Block::dropped(const torch::Tensor& x) const {
  return is_training() && dropout_ > 0 ? torch::dropout(x, dropout_, /*train=*/true) : x;
}

torch::Tensor Block::layer_by_layer(const torch::Tensor& x, BlockTrace* trace,
                                    const torch::Tensor& lengths) {
  const double drop_path = is_training() ? drop_path_ : 0;
  const MixerCall call{.trace = trace != nullptr ? &trace->mixer : nullptr, .lengths = lengths};
  auto mixer_input = norm1->forward(x);
  auto mixer_output = attn->forward(mixer_input, call);
  auto mixed = add_scaled(x, gamma1, dropped(mixer_output), drop_path);
  if (trace != nullptr) {
    trace->mixer_input = mixer_input;
    trace->mixer_output = mixer_output;
    trace->mixed = mixed;
  }
  return add_scaled(mixed, gamma2, dropped(mlp->forward(norm2->forward(mixed))), drop_path);
}

torch::Tensor Block::in_branches(const torch::Tensor& x, const torch::Tensor& lengths) {
  const double drop_path = is_training() ? drop_path_ : 0;
  const MixerCall call{.trace = nullptr, .lengths = lengths};
  torch::Tensor mixed;
  if (const MixerMaps maps = attn->maps(); maps.in != nullptr) {
    auto [residual, w] = norm_and_map(x, *norm1, *maps.in);
    auto y = attn->between(w, call);
    w.reset();
    mixed = map_and_add(residual, y, *maps.out, gamma1, keep_factors(x, drop_path));
  } else {
    mixed = add_scaled(x, gamma1, attn->forward(norm1->forward(x), call), drop_path);
  }
  const MlpBranch branch{.norm = *norm2,
                         .in = *mlp->fc1,
                         .out = *mlp->fc2,
                         .gamma = gamma2,
                         .recompute = recompute == Recompute::kMlp};
  return mlp_branch(mixed, branch, keep_factors(x, drop_path));
}

torch::Tensor Block::forward(const torch::Tensor& x, BlockTrace* trace,
                             const torch::Tensor& lengths) {
  const bool joined = branches && trace == nullptr && branches_apply(x, *this, dropout_);
  const auto run = [this, joined, lengths](const torch::Tensor& input) {
    return joined ? in_branches(input, lengths) : layer_by_layer(input, nullptr, lengths);
  };
  if (trace != nullptr) return layer_by_layer(x, trace, lengths);
  return recompute == Recompute::kBlock ? recomputed(run, x) : run(x);
}

}  // namespace tost
