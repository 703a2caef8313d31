#include "tost/kinds/language/plain_model.h"

#include "tost/base/error.h"
#include "tost/nn/causal_tssa.h"
#include "tost/ops/device.h"
#include "tost/ops/tssa_causal_plain.h"

namespace tost {
namespace {

using torch::Tensor;

class PlainMixer : public TokenMixer {
 public:
  explicit PlainMixer(const CausalTssaMixer& source) : source_(source) {}

  Tensor forward(const Tensor& x, const MixerCall& call) override {
    const Tensor w = torch::linear(x, source_.c_attn->weight, source_.c_attn->bias);
    const auto [y, pi, state] = tssa_causal_plain(w, source_.temp, source_.denom_bias);
    return torch::linear(y, source_.c_proj->weight, source_.c_proj->bias);
  }

 private:
  const CausalTssaMixer& source_;
};

}  // namespace

void check_plain_form(const LanguageConfig& config) {
  if (config.mixer != "tssa" || config.hybrid_every > 0) {
    fail_usage("There is a plain form of the mixer 'tssa' alone, not of '", config.mixer,
               "' or hybrids; leave it out with --no-plain.");
  }
  const CausalMixerOptions& o = config.options;
  const CausalMixerOptions none;
  if (o.conv != none.conv || o.decay != none.decay || o.scale_pi != none.scale_pi ||
      o.means != none.means || o.gate != none.gate || o.window != none.window) {
    fail_usage(
        "The plain form of the mixer 'tssa' has none of its options but bias_positions, and '",
        config.name, "' sets others; leave it out with --no-plain.");
  }
}

PlainModel::PlainModel(LanguageModel& model) : model_(model) {
  for (const auto& block : model.blocks()) {
    const auto* tssa = block->attn->as<CausalTssaMixer>();
    if (tssa == nullptr) continue;
    blocks_.push_back(block);
    other_.push_back(std::make_shared<PlainMixer>(*tssa));
  }
}

void PlainModel::swap_mixers() {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    std::swap(blocks_[i]->attn, other_[i]);
    blocks_[i]->branches = !blocks_[i]->branches;
  }
}

Tensor PlainModel::loss(const Tensor& ids, const Tensor& targets) {
  Tensor logits;
  {
    swap_mixers();
    struct SwapBack {
      PlainModel& plain;
      ~SwapBack() { plain.swap_mixers(); }
    } const swap_back{*this};
    logits = model_.forward(ids);
  }
  return torch::cross_entropy_loss(logits.flatten(0, 1),
                                   to_device(targets, logits.device()).flatten(), {},
                                   at::Reduction::Mean, -1);
}

}  // namespace tost
