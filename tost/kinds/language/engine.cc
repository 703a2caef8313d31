#include "tost/kinds/language/engine.h"

#include "tost/base/error.h"
#include "tost/nn/causal_attention.h"
#include "tost/nn/precision.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"

namespace tost {

using kernels::WeightType;
using torch::Tensor;

namespace {

// Disables gradients and torch's inference mode, because later calls change the tensors of states,
// which is not possible for tensors of inference mode.
struct PlainMode {
  const c10::InferenceMode off{false};
  const torch::NoGradGuard no_grad;
  const DeviceAutocast own_precision{Autocast::kOff};
};

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
    const PlainMode mode;
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

// The values of an array, which is undefined if it has none.
Tensor tensor_in(const Array& array, at::IntArrayRef sizes) {
  return array.defined() ? tensor_of(array).view(sizes) : torch::empty(sizes);
}

std::unique_ptr<EngineModel> engine_of(const LanguageModel& model, Precision precision,
                                       Arrays stored = {}) {
  check_predicts(model.config(), "the engine");
  const PlainMode mode;
  Arrays arrays;
  for (const auto& [name, tensor] : state_dict(model)) {
    const bool wide = tensor.is_floating_point() && tensor.scalar_type() != torch::kFloat;
    arrays[name] = array_of(wide ? tensor.to(torch::kFloat) : tensor);
  }
  WeightSource source(std::move(arrays), "The model", /*finite=*/true);
  const auto type = facts_of(precision).maps;
  auto weights = std::make_unique<LanguageWeights>(model.config(), source, precision,
                                                   std::make_shared<MixersOfModel>(model, type));
  if (type != WeightType::kFloat32) weights->gather();
  return std::make_unique<EngineModel>(std::move(weights), precision, Layout::kStored,
                                       std::move(stored));
}

}  // namespace

LanguageEngine::LanguageEngine(const LanguageModel& model, Precision precision)
    : engine_(engine_of(model, precision)) {}

Tensor LanguageEngine::extend(const Tensor& ids, LanguageState& state) {
  const PlainMode mode;
  check_ids(config(), ids, state.position);
  const auto whole = ids.contiguous();
  const int64_t batch = ids.size(0);
  return tensor_in(engine_->extend(whole.const_data_ptr<int64_t>(), batch, ids.size(1), state),
                   {batch, config().vocab});
}

Tensor LanguageEngine::step(const std::vector<int64_t>& ids,
                            const std::vector<LanguageState*>& states) {
  const PlainMode mode;
  return tensor_in(engine_->step(ids, states), {int64_t(ids.size()), config().vocab});
}

Tensor LanguageEngine::hidden(const Tensor& ids, LanguageState* state) {
  const PlainMode mode;
  LanguageState own;
  LanguageState& used = state != nullptr ? *state : own;
  check_ids(config(), ids, used.position);
  const auto whole = ids.contiguous();
  const int64_t batch = ids.size(0), tokens = ids.size(1);
  if (tokens == 0) return torch::empty({batch, tokens, config().dim});
  return tensor_in(engine_->hidden(whole.const_data_ptr<int64_t>(), batch, tokens, used),
                   {batch, tokens, config().dim});
}

Tensor LanguageEngine::logits(const Tensor& hidden) {
  const PlainMode mode;
  auto sizes = hidden.sizes().vec();
  sizes.back() = config().vocab;
  const auto rows = hidden.to(torch::kFloat).reshape({-1, hidden.size(-1)}).contiguous();
  return tensor_in(engine_->logits(array_of(rows)), sizes);
}

std::shared_ptr<LanguageEngine> read_by_engine(const std::shared_ptr<LanguageModel>& model,
                                               Precision precision) {
  auto engine = std::make_shared<LanguageEngine>(*model, precision);
  model->read_by(engine);
  return engine;
}

std::unique_ptr<TextEngine> text_engine(std::shared_ptr<LanguageModel> model, Precision precision) {
  return engine_of(*model, precision, arrays_of(state_dict(*model)));
}

void place_language(const std::shared_ptr<LanguageModel>& model, Precision precision,
                    torch::Device device) {
  if (device.is_cpu()) {
    if (!model->config().auto_encoder || precision != Precision::kFp32) {
      read_by_engine(model, precision);
    }
    return;
  }
  if (!facts_of(precision).modules) {
    fail_usage(precision,
               " needs the inference engine, which runs on the CPU; use fp32 or bf16 on ",
               device.str(), ".");
  }
  model->to(device);
}

Precisions language_precisions(torch::Device device) {
  return device.is_cpu() ? all_precisions() : classifier_precisions(/*engine=*/false);
}

Precision scope_precision(Precision precision, torch::Device device) {
  return device.is_cpu() ? Precision::kFp32 : precision;
}

}  // namespace tost
