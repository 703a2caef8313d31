#include "tost/nn/gpt_block.h"

#include <utility>

#include "tost/nn/branch.h"

namespace tost {

using torch::Tensor;

GptMlp::GptMlp(int64_t dim, int64_t hidden, bool bias, bool tanh_gelu) : tanh_gelu_(tanh_gelu) {
  c_fc = register_module("c_fc", std::make_shared<Linear>(dim, hidden, bias));
  c_proj = register_module("c_proj", std::make_shared<Linear>(hidden, dim, bias));
}

Tensor GptMlp::forward(const Tensor& x) const {
  return c_proj->forward(torch::gelu(c_fc->forward(x), tanh_gelu_ ? "tanh" : "none"));
}

GptBlock::GptBlock(const GptBlockConfig& config, std::shared_ptr<CausalMixer> mixer)
    : dropout_(config.dropout) {
  ln_1 = register_module("ln_1", std::make_shared<LayerNorm>(config.dim, 1e-5, config.bias));
  attn = register_module("attn", std::move(mixer));
  ln_2 = register_module("ln_2", std::make_shared<LayerNorm>(config.dim, 1e-5, config.bias));
  mlp = register_module("mlp", std::make_shared<GptMlp>(config.dim, config.mlp_hidden, config.bias,
                                                        config.tanh_gelu));
  gamma1 = register_parameter("gamma1", torch::full({config.dim}, config.layer_scale));
  gamma2 = register_parameter("gamma2", torch::full({config.dim}, config.layer_scale));
}

Tensor GptBlock::dropped(const Tensor& x) const {
  return is_training() && dropout_ > 0 ? torch::dropout(x, dropout_, /*train=*/true) : x;
}

Tensor GptBlock::layer_by_layer(const Tensor& x, const CausalCall& call, GptTrace* trace) {
  const auto mixer_input = ln_1->forward(x);
  const auto mixer_output = attn->forward(mixer_input, call);
  const auto mixed = add_scaled(x, gamma1, dropped(mixer_output));
  const auto output = add_scaled(mixed, gamma2, dropped(mlp->forward(ln_2->forward(mixed))));
  if (trace != nullptr) {
    trace->mixer_input = mixer_input;
    trace->mixer_output = mixer_output;
    trace->mixed = mixed;
    trace->output = output;
  }
  return output;
}

Tensor GptBlock::in_branches(const Tensor& x) {
  Tensor mixed;
  if (const MixerMaps maps = attn->maps(); maps.in != nullptr) {
    auto [residual, w] = norm_and_map(x, *ln_1, *maps.in);
    const auto y = attn->between(w);
    mixed = map_and_add(residual, y, *maps.out, gamma1, {});
  } else {
    mixed = add_scaled(x, gamma1, attn->forward(ln_1->forward(x), {}));
  }
  const MlpBranch branch{.norm = *ln_2,
                         .in = *mlp->c_fc,
                         .out = *mlp->c_proj,
                         .gamma = gamma2,
                         .tanh_gelu = mlp->tanh_gelu(),
                         .recompute = recompute == Recompute::kMlp};
  return mlp_branch(mixed, branch, {});
}

Tensor GptBlock::forward(const Tensor& x, MixerState* state, int64_t position, GptTrace* trace,
                         const Tensor* place) {
  const CausalCall call{trace != nullptr ? &trace->mixer : nullptr, state, position, place};
  if (state != nullptr || trace != nullptr) return layer_by_layer(x, call, trace);
  const bool joined = branches && branches_apply(x, *this, dropout_);
  const auto run = [this, joined, call](const Tensor& input) {
    return joined ? in_branches(input) : layer_by_layer(input, call, nullptr);
  };
  return recompute == Recompute::kBlock ? recomputed(run, x) : run(x);
}

}  // namespace tost
