#include "tost/nn/block.h"

#include <algorithm>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/precision.h"
#include "tost/nn/token_sums_scope.h"
#include "tost/ops/device.h"

namespace tost {

Mlp::Mlp(const BlockConfig& c) : tanh_gelu_(c.tanh_gelu) {
  const auto linear = [&](const char* key, int64_t in, int64_t out) {
    return register_module(key, std::make_shared<Linear>(in, out, c.bias || c.mlp != "gelu"));
  };
  if (c.mlp == "gelu") {
    fc1 = linear(c.language_keys ? "c_fc" : "fc1", c.dim, c.mlp_hidden);
    fc2 = linear(c.language_keys ? "c_proj" : "fc2", c.mlp_hidden, c.dim);
    return;
  }
  const bool ista = c.mlp == "ista";
  dictionary = linear("dictionary", c.dim, ista ? c.dim : c.mlp_hidden);
  if (ista) step = register_parameter("step", torch::full({1}, 0.1));
}

torch::Tensor Mlp::forward(const torch::Tensor& x, torch::Tensor* codes) const {
  if (fc1 != nullptr)
    return fc2->forward(torch::gelu(fc1->forward(x), tanh_gelu_ ? "tanh" : "none"));
  const auto atoms = dictionary->product_weight();
  const auto a =
      torch::relu(step.defined() ? x + step * dictionary->forward(x - torch::matmul(x, atoms))
                                 : dictionary->forward(x));
  if (codes != nullptr) *codes = a;
  return step.defined() ? a - x : torch::matmul(a, atoms);
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

torch::Tensor Block::layers(const torch::Tensor& x, BlockTrace* trace, const MixerCall& call) {
  const double drop_path = is_training() ? drop_path_ : 0;
  auto mixer_input = norm1->forward(x);
  auto mixer_output = attn->forward(mixer_input, call);
  auto mixed = add_scaled(x, gamma1, dropped(mixer_output), drop_path);
  const auto from = mlp->step.defined() ? norm2->forward(mixed) : mixed;
  const auto run = [this](const torch::Tensor& input, torch::Tensor* codes = nullptr) {
    return mlp->forward(mlp->step.defined() ? input : norm2->forward(input), codes);
  };
  const auto value = recompute == Recompute::kMlp && is_training()
                         ? recomputed(run, from)
                         : run(from, trace != nullptr ? &trace->codes : nullptr);
  auto output = add_scaled(from, gamma2, dropped(value), drop_path);
  if (trace != nullptr) {
    trace->mixer_input = mixer_input;
    trace->mixer_output = mixer_output;
    trace->mixed = mixed;
    trace->output = output;
  }
  return output;
}

torch::Tensor Block::forward(const torch::Tensor& x, BlockTrace* trace, MixerCall call) {
  if (trace != nullptr) call.trace = &trace->mixer;
  if (recompute != Recompute::kBlock || trace != nullptr || call.state != nullptr) {
    return layers(x, trace, call);
  }
  return recomputed(
      [this, call](const torch::Tensor& input) { return layers(input, nullptr, call); }, x);
}

std::vector<std::shared_ptr<Block>> blocks_of(const torch::nn::Module& model) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto block = std::dynamic_pointer_cast<Block>(module)) blocks.push_back(std::move(block));
  }
  return blocks;
}

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Run = std::function<Tensor(const Tensor&)>;

// Restores an earlier state of the generator; the destructor restores the present state.
class Replayed {
 public:
  Replayed(at::Device device, const Tensor& state)
      : device_(device), now_(generator_state(device)) {
    set_generator_state(device_, state);
  }
  ~Replayed() { set_generator_state(device_, now_); }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

 private:
  const at::Device device_;
  const Tensor now_;
};

// Runs with the TokenSums of the forward pass, because backward on a GPU runs on another thread.
struct SavedRun : torch::CustomClassHolder {
  explicit SavedRun(Run run) : run(std::move(run)) {}
  Run run;
  const TokenSums* sums = TokenSumsScope::current();
};

class RecomputedFunction : public torch::autograd::Function<RecomputedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Run& run) {
    context->save_for_backward({x});
    context->saved_data["random"] = generator_state(x.device());
    context->saved_data["autocast"] = at::autocast::is_autocast_enabled(x.device().type());
    context->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<SavedRun>(run));
    const NoCastCache fresh;
    return run(x);  // gradients are off in here
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    if (torch::GradMode::is_enabled()) {
      fail_usage(
          "What is computed again in backward cannot be differentiated twice; leave recompute at "
          "none.");
    }
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const auto saved =
        c10::static_intrusive_pointer_cast<SavedRun>(context->saved_data["run"].toCapsule());
    Tensor y;
    {
      const Replayed random(x.device(), context->saved_data["random"].toTensor());
      const bool cast = context->saved_data["autocast"].toBool();
      const TokenSumsScope sums(saved->sums);
      const DeviceAutocast autocast(cast ? Autocast::kBfloat16 : Autocast::kOff, x.device().type());
      const NoCastCache fresh;
      const torch::AutoGradMode with_gradients(true);
      y = saved->run(x);
    }
    y.backward(grads[0]);
    return {x.grad(), Tensor()};
  }
};

}  // namespace

std::vector<std::string> recompute_names() {
  return {"none", "mlp", "block"};
}

Recompute recompute_from_name(const std::string& name) {
  const auto names = recompute_names();
  const auto place = std::find(names.begin(), names.end(), name);
  if (place != names.end()) return static_cast<Recompute>(place - names.begin());
  fail_usage("Unknown recompute '", name, "'; use ", join(names, ", "), ".",
             did_you_mean(name, names));
}

void set_recompute(torch::nn::Module& module, Recompute recompute) {
  for (const auto& block : blocks_of(module)) block->recompute = recompute;
}

Tensor recomputed(const Run& run, const Tensor& x) {
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return run(x);
  return RecomputedFunction::apply(x, run);
}

}  // namespace tost
