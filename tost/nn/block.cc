#include "tost/nn/block.h"

#include <utility>

#include "tost/nn/branch.h"

namespace tost {

Mlp::Mlp(const BlockConfig& c) : tanh_gelu_(c.tanh_gelu) {
  const auto linear = [&](const char* key, int64_t in, int64_t out) {
    return register_module(key, std::make_shared<Linear>(in, out, c.bias));
  };
  fc1 = linear(c.language_keys ? "c_fc" : "fc1", c.dim, c.mlp_hidden);
  fc2 = linear(c.language_keys ? "c_proj" : "fc2", c.mlp_hidden, c.dim);
}

torch::Tensor Mlp::forward(const torch::Tensor& x) const {
  return fc2->forward(torch::gelu(fc1->forward(x), tanh_gelu_ ? "tanh" : "none"));
}

Block::Block(const BlockConfig& config, std::shared_ptr<TokenMixer> mixer)
    : drop_path_(config.drop_path), dropout_(config.dropout) {
  const bool language = config.language_keys;
  const auto norm = [&] {
    return std::make_shared<LayerNorm>(config.dim, config.norm_eps, config.bias);
  };
  norm1 = register_module(language ? "ln_1" : "norm1", norm());
  attn = register_module("attn", std::move(mixer));
  norm2 = register_module(language ? "ln_2" : "norm2", norm());
  mlp = register_module("mlp", std::make_shared<Mlp>(config));
  gamma1 = register_parameter("gamma1", torch::full({config.dim}, config.layer_scale));
  gamma2 = register_parameter("gamma2", torch::full({config.dim}, config.layer_scale));
}

torch::Tensor Block::dropped(const torch::Tensor& x) const {
  return is_training() && dropout_ > 0 ? torch::dropout(x, dropout_, /*train=*/true) : x;
}

torch::Tensor Block::layer_by_layer(const torch::Tensor& x, BlockTrace* trace,
                                    const MixerCall& call) {
  const double drop_path = is_training() ? drop_path_ : 0;
  auto mixer_input = norm1->forward(x);
  auto mixer_output = attn->forward(mixer_input, call);
  auto mixed = add_scaled(x, gamma1, dropped(mixer_output), drop_path);
  const auto run = [this](const torch::Tensor& input) {
    return mlp->forward(norm2->forward(input));
  };
  const auto value =
      recompute == Recompute::kMlp && is_training() ? recomputed(run, mixed) : run(mixed);
  auto output = add_scaled(mixed, gamma2, dropped(value), drop_path);
  if (trace != nullptr) {
    trace->mixer_input = mixer_input;
    trace->mixer_output = mixer_output;
    trace->mixed = mixed;
    trace->output = output;
  }
  return output;
}

torch::Tensor Block::in_branches(const torch::Tensor& x, const MixerCall& call) {
  const double drop_path = is_training() ? drop_path_ : 0;
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
                         .tanh_gelu = mlp->tanh_gelu(),
                         .recompute = recompute == Recompute::kMlp};
  return mlp_branch(mixed, branch, keep_factors(x, drop_path));
}

torch::Tensor Block::forward(const torch::Tensor& x, BlockTrace* trace, MixerCall call) {
  if (trace != nullptr) call.trace = &trace->mixer;
  if (trace != nullptr || call.state != nullptr) return layer_by_layer(x, trace, call);
  const bool joined = branches && branches_apply(x, *this, dropout_);
  const auto run = [this, joined, call](const torch::Tensor& input) {
    return joined ? in_branches(input, call) : layer_by_layer(input, nullptr, call);
  };
  return recompute == Recompute::kBlock ? recomputed(run, x) : run(x);
}

std::vector<std::shared_ptr<Block>> blocks_of(const torch::nn::Module& model) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto block = std::dynamic_pointer_cast<Block>(module)) blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace tost
