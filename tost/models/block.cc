#include "tost/models/block.h"

#include <utility>

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

torch::Tensor Block::forward(const torch::Tensor& x, BlockTrace* trace,
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

}  // namespace tost
