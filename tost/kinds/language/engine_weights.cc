#include "tost/kinds/language/engine_weights.h"

#include "tost/engine/threads.h"
#include "tost/nn/causal_attention.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"
#include "tost/ops/kernel_call.h"

namespace tost {

using kernels::WeightType;
using torch::Tensor;

namespace {

// The mixers of a model, with weights rounded to the precision of the engine.
class MixersOfModel : public ModuleMixers {
 public:
  MixersOfModel(const LanguageModel& model, WeightType type) {
    bool calls = false;
    for (int64_t i = 0; i < model.config().depth; ++i) {
      calls |= mixer_kind(model.config(), i) == BlockMixer::kModule;
    }
    const auto copy = calls && type != WeightType::kFloat32 ? rounded_copy(model, type) : nullptr;
    for (const auto& block : (copy != nullptr ? *copy : model).blocks()) {
      mixers_.push_back(block->attn);
    }
  }

  void mix(int64_t block, const Array& x, int64_t position, Arrays& state, float* y) override {
    auto& mixer = *mixers_[size_t(block)];
    MixerState own = take_tensors(state);
    auto* attention = dynamic_cast<CausalAttention*>(&mixer);
    const Tensor in = tensor_of(x);
    const bool projected = attention != nullptr && in.size(2) == attention->c_attn->weight.size(0);
    const Tensor mixed = projected ? attention->attend(in, &own)
                                   : mixer.forward(in, {.state = &own, .position = position});
    state = arrays_of(std::move(own));
    torch::from_blob(y, mixed.sizes(), torch::kFloat).copy_(mixed);
  }

  int64_t bytes(int64_t block) const override {
    int64_t bytes = 0;
    for (const auto& p : mixers_[size_t(block)]->parameters()) bytes += int64_t(p.nbytes());
    return bytes;
  }

 private:
  static std::shared_ptr<LanguageModel> rounded_copy(const LanguageModel& model, WeightType type) {
    const torch::NoGradGuard no_grad;
    auto copy = make_language_model(model.config(), WeightInit::kNone);
    load_state_dict(*copy, state_dict(model));
    const auto linear = linear_weight_names(*copy);
    for (auto& [name, tensor] : state_dict(*copy)) {
      if (linear.count(name) == 0) continue;
      const std::string map = name.substr(0, name.rfind(".weight"));
      WeightSource source({{name, array_of(tensor)}}, "The model", /*finite=*/true);
      const auto weight = source.map(map, tensor.size(0), tensor.size(1), false, type);
      tensor.copy_(tensor_of(weight.rounded()));
    }
    copy->eval();
    return copy;
  }

  std::vector<std::shared_ptr<TokenMixer>> mixers_;
};

}  // namespace

LanguageWeights weights_of(const LanguageModel& model, Precision precision) {
  count_engine_threads_by(torch_threads);
  Arrays arrays;
  for (const auto& [name, tensor] : state_dict(model)) {
    const bool wide = tensor.is_floating_point() && tensor.scalar_type() != torch::kFloat;
    arrays[name] = array_of(wide ? tensor.to(torch::kFloat) : tensor);
  }
  WeightSource source(std::move(arrays), "The model", /*finite=*/true);
  const auto type = facts_of(precision).maps;
  LanguageWeights weights(model.config(), source, precision,
                          std::make_shared<MixersOfModel>(model, type));
  if (type != WeightType::kFloat32) weights.gather();
  return weights;
}

}  // namespace tost
