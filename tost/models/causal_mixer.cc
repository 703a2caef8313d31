#include "tost/models/causal_mixer.h"

#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/models/causal_attention.h"
#include "tost/models/causal_means.h"
#include "tost/models/causal_tssa.h"

namespace tost {
namespace {

template <class Mixer>
std::shared_ptr<CausalMixer> make(const CausalMixerConfig& config) {
  return std::make_shared<Mixer>(config);
}

// Which additions a mixer has; any has conv.
struct CausalEntry {
  const char* name;
  std::shared_ptr<CausalMixer> (*make)(const CausalMixerConfig&);
  bool decay, means, scale, gate, window;
};

constexpr std::array kMixers{
    CausalEntry{"tssa", make<CausalTssaMixer>, true, true, true, true, false},
    CausalEntry{"softmax", make<CausalSoftmaxMixer>, false, false, false, false, true},
    CausalEntry{"linear", make<CausalLinearMixer>, false, false, false, false, false},
    CausalEntry{"tssa-uniform", make<CausalUniformMixer>, false, false, true, true, false},
    CausalEntry{"none", make<CausalNoMixer>, false, false, false, true, false},
    CausalEntry{"tssa-means",
                [](const CausalMixerConfig& c) -> std::shared_ptr<CausalMixer> {
                  return std::make_shared<CausalMeansMixer>(c, false);
                },
                true, false, false, true, false},
    CausalEntry{"tssa-means-uniform",
                [](const CausalMixerConfig& c) -> std::shared_ptr<CausalMixer> {
                  return std::make_shared<CausalMeansMixer>(c, true);
                },
                true, false, false, true, false},
};

const CausalEntry& find_mixer(const std::string& name) {
  for (const auto& entry : kMixers) {
    if (name == entry.name) return entry;
  }
  const auto names = causal_mixer_names();
  fail_usage("There is no causal token mixer '", name, "'; the mixers are ", join(names, ", "), ".",
             did_you_mean(name, names));
}

void refuse(const std::string& name, bool asked, bool has, const char* option) {
  if (asked && !has) {
    fail_usage("The mixer '", name, "' has no ", option, "; leave '", option,
               "' at its default, or choose another mixer.");
  }
}

}  // namespace

std::vector<std::string> causal_mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kMixers) names.emplace_back(entry.name);
  return names;
}

void check_causal_mixer(const std::string& name, const CausalMixerConfig& config) {
  const auto& entry = find_mixer(name);
  const auto& o = config.options;
  if (config.dim < 1 || config.heads < 1 || config.dim % config.heads != 0) {
    fail_usage(config.heads, " heads do not divide the width ", config.dim,
               "; choose a number of heads that divides it.");
  }
  refuse(name, o.decay != "none", entry.decay, "decay");
  refuse(name, o.means != "none", entry.means, "means");
  refuse(name, o.scale_pi, entry.scale, "scale_pi");
  refuse(name, o.gate, entry.gate, "gate");
  refuse(name, o.window != 0, entry.window, "window");
}

CausalMixerConfig own_options(const std::string& name, CausalMixerConfig config) {
  const auto& entry = find_mixer(name);
  const CausalMixerOptions none;
  auto& o = config.options;
  if (!entry.decay) o.decay = none.decay;
  if (!entry.means) o.means = none.means;
  if (!entry.scale) o.scale_pi = none.scale_pi;
  if (!entry.gate) o.gate = none.gate;
  if (!entry.window) o.window = none.window;
  return config;
}

std::shared_ptr<CausalMixer> make_causal_mixer(const std::string& name,
                                               const CausalMixerConfig& config) {
  check_causal_mixer(name, config);
  return find_mixer(name).make(config);
}

}  // namespace tost
