#include "tost/nn/causal_mixer.h"

#include <algorithm>
#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/causal_attention.h"
#include "tost/nn/causal_delta.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/mixer_ssm.h"

namespace tost {
namespace {

template <class Mixer>
std::shared_ptr<TokenMixer> make(const CausalMixerConfig& config) {
  return std::make_shared<Mixer>(config);
}

// Which additions a mixer has; any has conv.
struct CausalEntry {
  const char* name;
  std::shared_ptr<TokenMixer> (*make)(const CausalMixerConfig&);
  bool bias, decay, means, scale, gate, window;
  bool splits = false;  // honours TokenSumsScope
  // Not in hybrids: files of these from before it had a gate have none.
  bool gate_alone = false;
};

constexpr std::array kCausalMixers{
    CausalEntry{"tssa", make<CausalTssaMixer>, true, true, true, true, true, false, true},
    CausalEntry{"softmax", make<CausalSoftmaxMixer>, false, false, false, false, true, true, false,
                true},
    CausalEntry{"linear", make<CausalLinearMixer>, false, false, false, false, true, false, true,
                true},
    CausalEntry{"delta", make<CausalDeltaMixer>, false, true, false, false, true, false, true},
    CausalEntry{"ssm", make<CausalSsmMixer>, false, false, false, false, false, false},
    CausalEntry{"tssa-uniform", make<CausalUniformMixer>, false, false, false, true, true, false,
                true},
    CausalEntry{"none", make<CausalNoMixer>, false, false, false, false, true, false, true},
    CausalEntry{"tssa-means",
                [](const CausalMixerConfig& c) -> std::shared_ptr<TokenMixer> {
                  return std::make_shared<CausalMeansMixer>(c, false);
                },
                false, true, false, false, true, false, true},
    CausalEntry{"tssa-means-uniform",
                [](const CausalMixerConfig& c) -> std::shared_ptr<TokenMixer> {
                  return std::make_shared<CausalMeansMixer>(c, true);
                },
                false, true, false, false, true, false, true},
};

const CausalEntry& find_causal_mixer(const std::string& name) {
  for (const auto& entry : kCausalMixers) {
    if (name == entry.name) return entry;
  }
  const auto names = causal_mixer_names();
  fail_usage("There is no causal token mixer '", name, "'; the mixers are ", join(names, ", "), ".",
             did_you_mean(name, names));
}

// Of the additions that are asked for, those that the mixer lacks.
std::vector<std::string> lacking(const CausalEntry& entry, const CausalMixerOptions& o,
                                 bool hybrid = false) {
  std::vector<std::string> names;
  const auto look = [&](bool asked, bool has, const char* option) {
    if (asked && !has) names.emplace_back(option);
  };
  look(o.bias_positions != -1, entry.bias, "bias_positions");
  look(o.decay != "none", entry.decay, "decay");
  look(o.means != "none", entry.means, "means");
  look(o.scale_pi, entry.scale, "scale_pi");
  look(o.gate, entry.gate && !(hybrid && entry.gate_alone), "gate");
  look(o.window != 0, entry.window, "window");
  return names;
}

}  // namespace

std::vector<std::string> causal_mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kCausalMixers) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> split_causal_mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kCausalMixers) {
    if (entry.splits) names.emplace_back(entry.name);
  }
  return names;
}

std::shared_ptr<Linear> make_gate(const CausalMixerConfig& config) {
  if (!config.options.gate) return nullptr;
  return std::make_shared<Linear>(config.dim, config.dim, config.bias);
}

torch::Tensor project_gated(const torch::Tensor& y, const torch::Tensor& x, const Linear* gate,
                            const Linear& out, MixerTrace* trace) {
  if (gate == nullptr) return out.forward(y);
  const auto factor = torch::silu(gate->forward(x));
  if (trace != nullptr) trace->gate = factor;
  return out.forward(y * factor);
}

void check_causal_mixer(const std::string& name, const CausalMixerConfig& config) {
  const auto missing = lacking(find_causal_mixer(name), config.options);
  check_heads(config.dim, config.heads);
  if (missing.empty()) return;
  fail_usage("The mixer '", name, "' has no ", missing[0], "; leave '", missing[0],
             "' at its default, or choose another mixer.");
}

void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config) {
  check_heads(config.dim, config.heads);
  const auto of_other = lacking(find_causal_mixer(other), config.options, /*hybrid=*/true);
  for (const auto& option : lacking(find_causal_mixer(name), config.options, /*hybrid=*/true)) {
    if (std::find(of_other.begin(), of_other.end(), option) == of_other.end()) continue;
    fail_usage("Neither of the mixers '", name, "' and '", other, "' has ", option, "; leave '",
               option, "' at its default, or choose another mixer.");
  }
}

CausalMixerConfig own_options(const std::string& name, CausalMixerConfig config) {
  const auto& entry = find_causal_mixer(name);
  const CausalMixerOptions none;
  auto& o = config.options;
  if (!entry.bias) o.bias_positions = none.bias_positions;
  if (!entry.decay) o.decay = none.decay;
  if (!entry.means) o.means = none.means;
  if (!entry.scale) o.scale_pi = none.scale_pi;
  if (!entry.gate || entry.gate_alone) o.gate = none.gate;
  if (!entry.window) o.window = none.window;
  return config;
}

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config) {
  check_causal_mixer(name, config);
  return find_causal_mixer(name).make(config);
}

}  // namespace tost
