#include "tost/nn/token_mixer.h"

#include <algorithm>
#include <array>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/nn/mixer_attention.h"
#include "tost/nn/mixer_running_means.h"
#include "tost/nn/mixer_ssm.h"
#include "tost/nn/mixer_subspace.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/nn/mixer_tssa_tied.h"

namespace tost {
namespace {

template <class Mixer>
std::shared_ptr<TokenMixer> make(const MixerConfig& config) {
  return std::make_shared<Mixer>(config);
}

template <bool kMeans, bool kLengthFree>
std::shared_ptr<TokenMixer> make_tssa(const MixerConfig& config) {
  return std::make_shared<TssaMixer>(config,
                                     TssaAdditions{.means = kMeans, .length_free = kLengthFree});
}

template <bool kUniform>
std::shared_ptr<TokenMixer> make_running(const MixerConfig& config) {
  return std::make_shared<RunningMeansMixer>(config, kUniform);
}

struct MixerEntry {
  const char* name;
  std::shared_ptr<TokenMixer> (*make)(const MixerConfig&);
  int64_t projections;  // number of C x C maps
  // Multiply-adds between the projections per token; c width, p head width, n tokens. Element-wise
  // work is left out, as in the usual counting.
  int64_t (*core)(int64_t c, int64_t p, int64_t n);
  bool splits = false;  // honours TokenSumsScope
};

constexpr std::array kMixers{
    MixerEntry{"tssa", make<TssaMixer>, 2, [](int64_t c, int64_t, int64_t) { return c; }, true},
    // Group means read by the membership, and membership logits that do not shrink with the length:
    // both, then each alone.
    MixerEntry{"tssa-means", make_tssa<true, true>, 2,
               [](int64_t c, int64_t, int64_t) { return 2 * c; }, true},
    MixerEntry{"tssa-group-means", make_tssa<true, false>, 2,
               [](int64_t c, int64_t, int64_t) { return 2 * c; }, true},
    MixerEntry{"tssa-length-free", make_tssa<false, true>, 2,
               [](int64_t c, int64_t, int64_t) { return c; }, true},
    // Group means that are read in both directions, with membership and without.
    MixerEntry{"tssa-running-means", make_running<false>, 4,
               [](int64_t c, int64_t, int64_t) { return 2 * c; }},
    MixerEntry{"tssa-running-means-uniform", make_running<true>, 4,
               [](int64_t c, int64_t, int64_t) { return 2 * c; }},
    MixerEntry{"softmax", make<SoftmaxMixer>, 4,
               [](int64_t c, int64_t, int64_t n) { return 2 * c * n; }},
    MixerEntry{"xca", make<CrossCovarianceMixer>, 4,
               [](int64_t c, int64_t p, int64_t) { return 2 * c * p; }},
    MixerEntry{"linear", make<LinearAttentionMixer>, 4,
               [](int64_t c, int64_t p, int64_t) { return 2 * c * p + c; }},
    MixerEntry{"tssa-uniform", make<TssaUniformMixer>, 2,
               [](int64_t c, int64_t, int64_t) { return c; }, true},
    MixerEntry{"tssa-tied", make<TssaTiedMixer>, 2, [](int64_t c, int64_t, int64_t) { return c; }},
    // Its one map is C -> 2 C.
    MixerEntry{"ssm", make<SsmMixer>, 2,
               [](int64_t c, int64_t, int64_t n) {
                 return c * StateSpace::multiply_adds(SsmMixer::shape(c), n);
               }},
    MixerEntry{"mssa", make<MssaMixer>, 2, [](int64_t c, int64_t, int64_t n) { return 2 * c * n; }},
    // Pooling, contraction and broadcast; the representatives among themselves, per token.
    MixerEntry{"cbsa", make<CbsaMixer>, 2,
               [](int64_t c, int64_t, int64_t n) {
                 const int64_t r = std::min(CbsaMixer::kRepresentatives, n);
                 return 4 * c * r + 2 * c * r * r / std::max<int64_t>(1, n);
               }},
    MixerEntry{"none", make<NoMixer>, 2, [](int64_t, int64_t, int64_t) { return int64_t{0}; },
               true},
};

const MixerEntry& find_mixer(const std::string& name) {
  for (const auto& entry : kMixers) {
    if (name == entry.name) return entry;
  }
  fail_usage("There is no token mixer '", name, "'; the mixers are ", join(mixer_names(), ", "),
             ".", did_you_mean(name, mixer_names()));
}

}  // namespace

std::vector<std::string> mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kMixers) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> split_mixer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kMixers) {
    if (entry.splits) names.emplace_back(entry.name);
  }
  return names;
}

void check_mixer_name(const std::string& name) {
  find_mixer(name);
}

void check_heads(int64_t dim, int64_t heads) {
  if (dim >= 1 && heads >= 1 && dim % heads == 0) return;
  fail_usage(heads, " heads do not divide the width ", dim,
             "; choose a number of heads that divides it.");
}

void check_mixer(const std::string& name, const MixerConfig& config) {
  check_mixer_name(name);
  check_heads(config.dim, config.heads);
}

std::shared_ptr<TokenMixer> make_mixer(const std::string& name, const MixerConfig& config) {
  check_mixer(name, config);
  return find_mixer(name).make(config);
}

int64_t mixer_multiply_adds(const std::string& name, const MixerConfig& config, int64_t tokens) {
  const auto& entry = find_mixer(name);
  const int64_t c = config.dim;
  return tokens * (entry.projections * c * c + entry.core(c, c / config.heads, tokens));
}

}  // namespace tost
