// The table of all mixers, in which a name means a bidirectional and a causal form of one mixer.
#include <algorithm>
#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/engine/mixer_names.h"
#include "tost/nn/causal_attention.h"
#include "tost/nn/causal_delta.h"
#include "tost/nn/causal_means.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/causal_tssa.h"
#include "tost/nn/mixer_attention.h"
#include "tost/nn/mixer_ssm.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace {

template <class Mixer, class Config>
std::shared_ptr<TokenMixer> make(const Config& config) {
  return std::make_shared<Mixer>(config);
}

// The multiply-adds per token between the projections, for width c, head width p and n tokens.
// Element-wise operations are not counted, as usual.
using Core = int64_t (*)(int64_t c, int64_t p, int64_t n);

constexpr Core kNothing = [](int64_t, int64_t, int64_t) { return int64_t{0}; };
constexpr Core kMoments = [](int64_t c, int64_t, int64_t) { return c; };
constexpr Core kMeanReads = [](int64_t c, int64_t, int64_t) { return 2 * c; };
constexpr Core kPairs = [](int64_t c, int64_t, int64_t n) { return 2 * c * n; };

// Counts pooling, attention of tokens to representatives and back, and attention among
// representatives.
constexpr Core kRepresentatives = [](int64_t c, int64_t, int64_t n) {
  const int64_t r = std::min(CbsaMixer::kRepresentatives, n);
  return 4 * c * r + 2 * c * r * r / std::max<int64_t>(1, n);
};

// A null `make` means that the mixer has no bidirectional form. `splits`: honours TokenSumsScope.
struct BothDirections {
  std::shared_ptr<TokenMixer> (*make)(const MixerConfig&) = nullptr;
  int64_t projections = 0;  // number of C x C maps
  Core core = nullptr;
  bool splits = false;
};

// The additions that a causal mixer may have; every mixer has conv.
enum Addition : unsigned {
  kBias = 1,
  kDecay = 2,
  kMeans = 4,
  kScale = 8,
  kGate = 16,
  kGateOnly = 32,   // not in hybrids: files of these from before attention had a gate have none
  kAttention = 64,  // attention weights: their window and their dropout
  kDelta = 128,     // the delta rule: range of beta and steps of a token
};

struct Causal {
  std::shared_ptr<TokenMixer> (*make)(const CausalMixerConfig&) = nullptr;
  unsigned additions = 0;
  bool splits = false;

  bool has(unsigned addition) const { return (additions & addition) != 0; }
};

struct MixerEntry {
  const char* name;
  BothDirections both = {};
  Causal causal = {};
};

constexpr std::array kMixers{
    MixerEntry{"tssa",
               {make<TssaMixer>, 2, kMoments, true},
               {make<CausalTssaMixer>, kBias | kDecay | kMeans | kScale | kGate, true}},
    MixerEntry{
        "means", {make<MeansMixer>, 4, kMeanReads}, {make<CausalMeansMixer>, kDecay | kGate, true}},
    MixerEntry{"delta", {}, {make<CausalDeltaMixer>, kDecay | kGate | kDelta, true}},
    MixerEntry{"linear",
               {make<LinearAttentionMixer>, 4,
                [](int64_t c, int64_t p, int64_t) { return 2 * c * p + c; }},
               {make<CausalLinearMixer>, kGateOnly, true}},
    MixerEntry{"softmax",
               {make<SoftmaxMixer>, 4, kPairs},
               {make<CausalSoftmaxMixer>, kGateOnly | kAttention}},
    MixerEntry{
        "xca",
        {make<CrossCovarianceMixer>, 4, [](int64_t c, int64_t p, int64_t) { return 2 * c * p; }}},
    // ssm counts as two maps, because its only map is C -> 2 C.
    MixerEntry{"ssm",
               {make<SsmMixer>, 2,
                [](int64_t c, int64_t, int64_t n) {
                  return c * StateSpace::multiply_adds(SsmMixer::shape(c), n);
                }},
               {make<CausalSsmMixer>}},
    MixerEntry{"mssa", {make<MssaMixer>, 2, kPairs}},
    MixerEntry{"cbsa", {make<CbsaMixer>, 2, kRepresentatives}},
    MixerEntry{"tssa-tied", {make<TssaTiedMixer>, 2, kMoments}},
    MixerEntry{"uniform",
               {make<UniformMixer>, 2, kMoments, true},
               {make<CausalUniformMixer>, kScale | kGate, true}},
    MixerEntry{"none", {make<NoMixer>, 2, kNothing, true}, {make<CausalNoMixer>, kGate, true}},
};
static_assert(kMixers.size() == 12, "tost/engine/mixer_names.h names all of them");

[[noreturn]] void fail_name(const std::string& name, bool causal, const char* kind,
                            const std::vector<std::string>& names) {
  if (is_dropped_mixer(name, causal)) {
    fail_usage("The ", kind, " '", name, "' was dropped; only earlier builds of tost 0.1.0 ",
               "read it. The mixers are ", join(names, ", "), ".");
  }
  fail_usage("There is no ", kind, " '", name, "'; the mixers are ", join(names, ", "), ".",
             did_you_mean(name, names));
}

const BothDirections& find_mixer(const std::string& name) {
  const std::string wanted = mixer_in_use(name);
  for (const auto& entry : kMixers) {
    if (wanted == entry.name && entry.both.make != nullptr) return entry.both;
  }
  fail_name(name, /*causal=*/false, "token mixer", mixer_names());
}

const Causal& find_causal_mixer(const std::string& name) {
  const std::string wanted = causal_mixer_in_use(name);
  for (const auto& entry : kMixers) {
    if (wanted == entry.name && entry.causal.make != nullptr) return entry.causal;
  }
  fail_name(name, /*causal=*/true, "causal token mixer", causal_mixer_names());
}

// The requested additions that the mixer lacks.
std::vector<std::string> missing_options(const Causal& entry, const CausalMixerOptions& o,
                                         bool hybrid = false) {
  std::vector<std::string> names;
  const auto check = [&](bool requested, unsigned addition, const char* option) {
    if (requested && !entry.has(addition)) names.emplace_back(option);
  };
  check(o.bias_positions != -1, kBias, "bias_positions");
  check(o.decay != "none", kDecay, "decay");
  check(o.means != "none", kMeans, "means");
  check(o.scale_pi, kScale, "scale_pi");
  check(o.gate, hybrid ? kGate : kGate | kGateOnly, "gate");
  check(o.window != 0, kAttention, "window");
  check(o.attention_dropout != -1, kAttention, "attention_dropout");
  check(o.beta_range != 1, kDelta, "beta_range");
  check(o.delta_steps != 1, kDelta, "delta_steps");
  return names;
}

}  // namespace

std::vector<std::string> split_mixer_names(bool causal) {
  std::vector<std::string> names;
  for (const auto& entry : kMixers) {
    if (causal ? entry.causal.splits : entry.both.splits) names.emplace_back(entry.name);
  }
  return names;
}

void check_mixer_name(const std::string& name) {
  find_mixer(name);
}

std::shared_ptr<TokenMixer> make_mixer(const std::string& name, const MixerConfig& config) {
  check_heads(config.dim, config.heads);
  return find_mixer(name).make(config);
}

int64_t mixer_multiply_adds(const std::string& name, const MixerConfig& config, int64_t tokens) {
  const auto& entry = find_mixer(name);
  const int64_t c = config.dim;
  return tokens * (entry.projections * c * c + entry.core(c, c / config.heads, tokens));
}

void check_causal_mixer(const std::string& name, const CausalMixerConfig& config) {
  const auto missing = missing_options(find_causal_mixer(name), config.options);
  check_heads(config.dim, config.heads);
  if (missing.empty()) return;
  fail_usage("The mixer '", name, "' has no ", missing[0], "; leave '", missing[0],
             "' at its default, or choose another mixer.");
}

void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config) {
  check_heads(config.dim, config.heads);
  const auto of_other = missing_options(find_causal_mixer(other), config.options, /*hybrid=*/true);
  for (const auto& option :
       missing_options(find_causal_mixer(name), config.options, /*hybrid=*/true)) {
    if (std::find(of_other.begin(), of_other.end(), option) == of_other.end()) continue;
    fail_usage("Neither of the mixers '", name, "' and '", other, "' has ", option,
               " in a hybrid; leave '", option, "' at its default, or choose another mixer.");
  }
}

CausalMixerConfig supported_options(const std::string& name, CausalMixerConfig config) {
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
  if (!entry.has(kDelta)) {
    o.beta_range = none.beta_range;
    o.delta_steps = none.delta_steps;
  }
  return config;
}

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config) {
  check_causal_mixer(name, config);
  return find_causal_mixer(name).make(config);
}

}  // namespace tost
