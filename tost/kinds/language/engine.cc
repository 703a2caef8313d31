#include "tost/kinds/language/engine.h"

#include "tost/base/error.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"

namespace tost {

using torch::Tensor;

namespace {

// Disables gradients and torch's inference mode, because later calls change the tensors of states,
// which is not possible for tensors of inference mode.
struct PlainMode {
  const c10::InferenceMode off{false};
  const torch::NoGradGuard no_grad;
  const DeviceAutocast own_precision{Autocast::kOff};
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
  auto weights = std::make_unique<LanguageWeights>(model.config(), source, precision);
  if (weights->type != kernels::WeightType::kFloat32) weights->gather();
  return std::make_unique<EngineModel>(std::move(weights), precision, Layout::kStored,
                                       std::move(stored));
}

// Computes by modules, on the weights that an engine of this precision would read.
class RoundedModel : public LanguageReader {
 public:
  RoundedModel(const LanguageModel& model, Precision precision)
      : copy_(make_language_model(model.config(), WeightInit::kNone)) {
    const torch::NoGradGuard no_grad;
    load_state_dict(*copy_, state_dict(model));
    const auto maps = linear_weight_names(*copy_), tables = token_table_names(*copy_);
    for (auto& [name, tensor] : state_dict(*copy_)) {
      const bool table = tables.count(name) != 0;
      if (!table && maps.count(name) == 0) continue;
      const auto type = table ? facts_of(precision).tables : facts_of(precision).maps;
      WeightSource source({{name, array_of(tensor)}}, "The model", /*finite=*/true);
      const std::string map = name.substr(0, name.rfind(".weight"));
      const auto weight = source.map(map, tensor.size(0), tensor.size(1), false, type);
      tensor.copy_(tensor_of(weight.rounded()));
    }
    copy_->eval();
  }

  Tensor extend(const Tensor& ids, LanguageState& state) override {
    return copy_->extend(ids, state);
  }
  Tensor hidden(const Tensor& ids, LanguageState* state) override {
    return copy_->hidden(ids, state);
  }
  Tensor logits(const Tensor& hidden) override { return copy_->logits(hidden); }

 private:
  const std::shared_ptr<LanguageModel> copy_;
};

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

void read_by_engine(const std::shared_ptr<LanguageModel>& model, Precision precision) {
  std::shared_ptr<LanguageReader> reader;  // none: modules
  if (engine_has(model->config())) {
    reader = std::make_shared<LanguageEngine>(*model, precision);
  } else if (precision != Precision::kFp32) {
    reader = std::make_shared<RoundedModel>(*model, precision);
  }
  model->read_by(std::move(reader));
}

std::unique_ptr<EngineModel> text_engine(const LanguageModel& model, Precision precision) {
  return engine_of(model, precision, arrays_of(state_dict(model)));
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
