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

template <bool kUniform>
std::shared_ptr<TokenMixer> make_means(const CausalMixerConfig& config) {
  return std::make_shared<CausalMeansMixer>(config, kUniform);
}

// Additions that a mixer may have; any has conv.
enum Addition : unsigned {
  kBias = 1,
  kDecay = 2,
  kMeans = 4,
  kScale = 8,
  kGate = 16,
  kGateAlone = 32,  // not in hybrids: files of these from before attention had a gate have none
  kAttention = 64,  // attention weights: their window and their dropout
};

struct CausalEntry {
  const char* name;
  std::shared_ptr<TokenMixer> (*make)(const CausalMixerConfig&);
  unsigned additions = 0;
  bool splits = false;  // honours TokenSumsScope

  bool has(unsigned addition) const { return (additions & addition) != 0; }
};

constexpr std::array kCausalMixers{
    CausalEntry{"tssa", make<CausalTssaMixer>, kBias | kDecay | kMeans | kScale | kGate, true},
    CausalEntry{"softmax", make<CausalSoftmaxMixer>, kGateAlone | kAttention},
    CausalEntry{"linear", make<CausalLinearMixer>, kGateAlone, true},
    CausalEntry{"delta", make<CausalDeltaMixer>, kDecay | kGate, true},
    CausalEntry{"ssm", make<CausalSsmMixer>},
    CausalEntry{"tssa-uniform", make<CausalUniformMixer>, kScale | kGate, true},
    CausalEntry{"none", make<CausalNoMixer>, kGate, true},
    CausalEntry{"tssa-means", make_means<false>, kDecay | kGate, true},
    CausalEntry{"tssa-means-uniform", make_means<true>, kDecay | kGate, true},
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
  const auto look = [&](bool asked, unsigned addition, const char* option) {
    if (asked && !entry.has(addition)) names.emplace_back(option);
  };
  look(o.bias_positions != -1, kBias, "bias_positions");
  look(o.decay != "none", kDecay, "decay");
  look(o.means != "none", kMeans, "means");
  look(o.scale_pi, kScale, "scale_pi");
  look(o.gate, hybrid ? kGate : kGate | kGateAlone, "gate");
  look(o.window != 0, kAttention, "window");
  look(o.attention_dropout != -1, kAttention, "attention_dropout");
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

std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config) {
  if (!config.options.gate) return nullptr;
  return mixer.register_module("gate",
                               std::make_shared<Linear>(config.dim, config.dim, config.bias));
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
    fail_usage("Neither of the mixers '", name, "' and '", other, "' has ", option,
               " in a hybrid; leave '", option, "' at its default, or choose another mixer.");
  }
}

CausalMixerConfig own_options(const std::string& name, CausalMixerConfig config) {
  const auto& entry = find_causal_mixer(name);
  const CausalMixerOptions none;
  auto& o = config.options;
  if (!entry.has(kBias)) o.bias_positions = none.bias_positions;
  if (!entry.has(kDecay)) o.decay = none.decay;
  if (!entry.has(kMeans)) o.means = none.means;
  if (!entry.has(kScale)) o.scale_pi = none.scale_pi;
  if (!entry.has(kGate)) o.gate = none.gate;
  if (!entry.has(kAttention)) {
    o.window = none.window;
    o.attention_dropout = none.attention_dropout;
  }
  return config;
}

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config) {
  check_causal_mixer(name, config);
  return find_causal_mixer(name).make(config);
}

}  // namespace tost
