#include "tost/study/scaling_layer.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/plain.h"

namespace tost {

using torch::Tensor;

namespace {

CausalMixerConfig causal_config(const std::string& mixer, int64_t dim, int64_t heads) {
  CausalMixerConfig config;
  config.dim = dim, config.heads = heads, config.block = 1;
  // No biases for positions, which would be parameters that grow with the number of tokens.
  if (mixer == "tssa") config.options.bias_positions = 0;
  return config;
}

// The preset without learned positions, which would limit the length.
SequenceConfig network_config(const std::string& preset, const std::string& mixer) {
  auto config = sequence_preset(preset);
  config.mixer = mixer;
  config.pairs = false;
  if (config.positions == "learned") config.positions = "sinusoidal";
  return config;
}

}  // namespace

ScalingLayer::ScalingLayer(const std::string& mixer, const ScalingOptions& options)
    : mixer_(mixer), causal_(options.causal), dim_(options.dim), heads_(options.heads) {
  if (!options.network.empty()) network_ = network_config(options.network, mixer);
  module_ = make(torch::kFloat);
  if (!network_) init_linears(*module_);
  if (auto* wide_parameters = module_->as<TokenMixer>()) wide_parameters->draw_weights();
  module_->eval();
  module_->to(options.dtype == "bfloat16" ? torch::kBFloat16 : torch::kFloat);
}

std::shared_ptr<torch::nn::Module> ScalingLayer::make(torch::ScalarType dtype) const {
  std::shared_ptr<torch::nn::Module> module;
  if (network_) {
    module = make_sequence_classifier(*network_);
    module->eval();
  } else if (causal_) {
    module = make_causal_mixer(mixer_, causal_config(mixer_, dim_, heads_));
  } else {
    module = make_mixer(mixer_, {.dim = dim_, .heads = heads_});
  }
  module->to(dtype);
  return module;
}

Tensor ScalingLayer::call(torch::nn::Module& module, const Tensor& x) const {
  if (auto* network = module.as<SequenceClassifier>()) return network->forward({x, {}});
  return module.as<TokenMixer>()->forward(x, {});
}

Tensor ScalingLayer::forward(const Tensor& x) const {
  const torch::NoGradGuard no_grad;
  return call(*module_, x);
}

Tensor ScalingLayer::draw_input(int64_t batch, int64_t tokens) const {
  if (network_) return torch::randint(1, network_->vocab, {batch, tokens});
  return torch::randn({batch, tokens, dim_}).to(module_->parameters().front().scalar_type());
}

void ScalingLayer::train(const Tensor& x) const {
  const auto input = network_ ? x : x.detach().requires_grad_();
  std::vector<Tensor> wanted;
  if (!network_) wanted.push_back(input);
  for (const auto& p : module_->parameters()) {
    if (p.numel() > 0) wanted.push_back(p);
  }
  // Any gradient of the output will do; that of a layer has the shape of its input.
  const auto y = call(*module_, input);
  torch::autograd::grad({y}, wanted, {network_ ? torch::ones_like(y) : x});
}

Tensor ScalingLayer::project(const Tensor& x) const {
  const torch::NoGradGuard no_grad;
  return module_->as<TokenMixer>()->project(x);
}

Tensor ScalingLayer::temp() const {
  return module_->named_parameters()["temp"].detach().to(torch::kFloat);
}

Tensor ScalingLayer::reference(const Tensor& x) const {
  const torch::NoGradGuard no_grad;
  const auto wide = make(torch::kDouble);
  auto wide_parameters = wide->named_parameters();
  for (const auto& item : module_->named_parameters())
    wide_parameters[item.key()].copy_(item.value());
  if (network_) return call(*wide, x);
  if (!has_membership()) return call(*wide, x.to(torch::kDouble));
  const auto linear = [&](const Tensor& v, const std::string& name) {
    const auto* bias = wide_parameters.find(name + ".bias");
    return torch::linear(v, wide_parameters[name + ".weight"], bias != nullptr ? *bias : Tensor());
  };
  const auto w = linear(x.to(torch::kDouble), causal_ ? "c_attn" : "qkv");
  const auto y = causal_ ? std::get<0>(tssa_causal_plain(w, wide_parameters["temp"],
                                                         wide_parameters["denom_bias"]))
                         : std::get<0>(tssa_plain(w, wide_parameters["temp"]));
  return linear(y, causal_ ? "c_proj" : "to_out.0");
}

void ScalingLayer::check_result() const {
  constexpr int64_t kTokens = 300;
  const auto dtype = module_->parameters().front().scalar_type();
  const auto x = draw_input(2, kTokens);
  const auto wanted = reference(x);
  const double error = (forward(x).to(torch::kDouble) - wanted).abs().max().item<double>() /
                       std::max(wanted.abs().max().item<double>(), 1e-30);
  const double allowed = dtype == torch::kBFloat16 ? 5e-2 : 1e-4;
  if (error <= allowed) return;
  fail_data("The layer '", mixer_, "' and its float64 form differ by ", error, " at 2 x ", kTokens,
            " tokens, more than ", allowed, "; please report this with the output of `tost info`.");
}

void check_scaling_options(const ScalingOptions& options) {
  const auto at_least_one = [](const char* flag, double value) {
    if (!(value >= 1)) fail_usage("--", flag, " is ", value, "; it must be at least 1.");
  };
  if (options.mixers.empty()) fail_usage("--mixers names none; write for example tssa,softmax.");
  if (options.tokens.empty()) fail_usage("--tokens names no length; write for example 128,1k,1M.");
  for (const auto& name : options.mixers) {
    if (std::count(options.mixers.begin(), options.mixers.end(), name) > 1) {
      fail_usage("--mixers names '", name, "' twice; name it once.");
    }
    if (options.causal) {
      check_causal_mixer(name, causal_config(name, options.dim, options.heads));
    } else {
      check_mixer(name, {.dim = options.dim, .heads = options.heads});
    }
  }
  if (options.dtype != "float32" && options.dtype != "bfloat16") {
    fail_usage("--dtype is '", options.dtype, "'; use float32 or bfloat16.");
  }
  for (const auto& name : options.mixers) {
    if (options.dtype == "float32" || name != "tssa-tied") continue;
    fail_usage("--mixers has tssa-tied, whose orthonormal weights need --dtype float32.");
  }
  if (options.modes.empty()) fail_usage("--modes names none; use forward, train or both.");
  for (const auto& mode : options.modes) {
    if (mode == "forward" || mode == "train") continue;
    fail_usage("--modes has '", mode, "'; use forward, train or both.");
  }
  if (!options.network.empty()) {
    sequence_preset(options.network);
    if (options.causal) fail_usage("--network and --causal do not go together; leave one out.");
    if (options.dtype != "float32") {
      fail_usage("--network needs --dtype float32, not ", options.dtype, ".");
    }
  }
  if (options.dim > 65'536) fail_usage("--dim is ", options.dim, "; at most 65536 is possible.");
  at_least_one("batch-tokens", double(options.batch_tokens));
  at_least_one("repeat", double(options.repeat));
  if (!(options.max_seconds > 0)) {
    fail_usage("--max-seconds is ", options.max_seconds, "; it must be above 0.");
  }
}

}  // namespace tost
