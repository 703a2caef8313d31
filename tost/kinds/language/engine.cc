#include "tost/kinds/language/engine.h"

#include <algorithm>
#include <optional>

#include "tost/base/error.h"
#include "tost/kinds/language/engine_weights.h"
#include "tost/nn/device_autocast.h"
#include "tost/ops/arrays.h"

namespace tost {

using torch::Tensor;

namespace {

// The largest number of rows for which steps of a few rows are faster than tiles.
constexpr int64_t kStepRows = 16;

// Disables gradients and torch's inference mode, because later calls change the engine's tensors,
// which is not possible for tensors of inference mode.
struct PlainMode {
  const c10::InferenceMode off{false};
  const torch::NoGradGuard no_grad;
  const DeviceAutocast own_precision{Autocast::kOff};
};

}  // namespace

struct LanguageEngine::Parts {
  Parts(const LanguageModel& model, Precision precision)
      : weights(weights_of(model, precision)), step(weights) {}

  LanguagePrefill& prefill() {
    if (!many) many.emplace(weights);
    return *many;
  }

  // Computes rows [n, C] after the final norm.
  Tensor normed(const Tensor& x) const {
    return torch::layer_norm(x, {x.size(1)}, tensor_of(weights.norm.weight),
                             tensor_of(weights.norm.bias), weights.norm.eps);
  }

  LanguageWeights weights;
  LanguageStep step;
  std::optional<LanguagePrefill> many;  // laid out when first needed
  bool tiles = false;                   // step() goes by `many`
};

LanguageEngine::LanguageEngine(const LanguageModel& model, Precision precision)
    : precision_(precision) {
  check_predicts(model.config(), "the engine");
  const PlainMode mode;
  parts_ = std::make_unique<Parts>(model, precision);
}

LanguageEngine::~LanguageEngine() = default;

void LanguageEngine::expect_texts() {
  const PlainMode mode;
  const auto& c = config();
  // Does not use tiles for eight bits, because tiles read bfloat16 weights of twice the size.
  if (parts_->weights.type == kernels::WeightType::kBfloat16 && c.dim % 32 == 0) {
    parts_->tiles = parts_->prefill().rows_alone();
  }
}

const LanguageConfig& LanguageEngine::config() const {
  return parts_->weights.config;
}

int64_t LanguageEngine::step_bytes() const {
  return parts_->weights.step_bytes();
}

Tensor LanguageEngine::extend(const Tensor& any_ids, LanguageState& state) {
  const PlainMode mode;
  if (any_ids.dim() == 2 && any_ids.size(1) == 0) fail_data("There are no tokens to read.");
  check_ids(config(), any_ids, state.position);
  const auto ids = any_ids.contiguous();
  const int64_t batch = ids.size(0), tokens = ids.size(1), dim = config().dim;
  state.blocks.resize(parts_->weights.blocks.size());
  auto logits = torch::empty({batch, config().vocab});
  auto* to = logits.mutable_data_ptr<float>();
  if (batch == 0) return logits;
  const int64_t at_once = kernels::kMostFewRows / batch;
  if (batch * tokens <= kStepRows && at_once > 0) {
    for (int64_t t = 0; t < tokens; t += at_once) {
      const int64_t count = std::min(at_once, tokens - t);
      const bool last = t + count == tokens;
      const auto part = ids.narrow(1, t, count).contiguous();
      parts_->step.run(part.const_data_ptr<int64_t>(), batch, count, state, last ? to : nullptr);
      state.position += count;
    }
    return logits;
  }
  const int64_t piece = std::max<int64_t>(1, kPieceTokens / batch);
  Tensor rows;
  for (int64_t t = 0; t < tokens; t += piece) {
    const int64_t count = std::min(piece, tokens - t);
    const auto& x = parts_->prefill().run(ids.narrow(1, t, count).contiguous(), state);
    state.position += count;
    if (t + count == tokens) rows = x.view({batch, count, dim}).select(1, count - 1).contiguous();
  }
  rows = parts_->normed(rows);
  parts_->step.head(rows.const_data_ptr<float>(), batch, to);
  return logits;
}

Tensor LanguageEngine::step(const std::vector<int64_t>& ids,
                            const std::vector<LanguageState*>& states) {
  const PlainMode mode;
  for (size_t i = 0; i < ids.size(); ++i) {
    check_ids(config(), &ids[i], 1);
    check_position(config(), states[i]->position, 1);
    states[i]->blocks.resize(parts_->weights.blocks.size());
  }
  auto logits = torch::empty({int64_t(ids.size()), config().vocab});
  if (ids.empty()) return logits;
  if (parts_->tiles) {
    const auto rows = parts_->normed(parts_->prefill().run_texts(ids, states));
    parts_->prefill().head(rows, logits);
  } else {
    parts_->step.run_texts(ids, states, logits.mutable_data_ptr<float>());
  }
  for (auto* state : states) ++state->position;
  return logits;
}

Tensor LanguageEngine::hidden(const Tensor& any_ids, LanguageState* state) {
  const PlainMode mode;
  LanguageState own;
  LanguageState& used = state != nullptr ? *state : own;
  check_ids(config(), any_ids, used.position);
  const auto ids = any_ids.contiguous();
  const int64_t batch = ids.size(0), tokens = ids.size(1);
  used.blocks.resize(parts_->weights.blocks.size());
  auto result = torch::empty({batch, tokens, config().dim});
  const int64_t piece = std::max<int64_t>(1, kPieceTokens / std::max<int64_t>(1, batch));
  for (int64_t t = 0; t < tokens && batch > 0; t += piece) {
    const int64_t count = std::min(piece, tokens - t);
    const auto& x = parts_->prefill().run(ids.narrow(1, t, count).contiguous(), used);
    used.position += count;
    result.narrow(1, t, count).copy_(parts_->normed(x).view({batch, count, config().dim}));
  }
  return result;
}

Tensor LanguageEngine::logits(const Tensor& hidden) {
  const PlainMode mode;
  const int64_t vocab = config().vocab;
  auto sizes = hidden.sizes().vec();
  sizes.back() = vocab;
  const auto rows = hidden.to(torch::kFloat).reshape({-1, hidden.size(-1)}).contiguous();
  auto logits = torch::empty({rows.size(0), vocab});
  if (rows.size(0) > kStepRows) {
    parts_->prefill().head(rows, logits);
  } else {
    parts_->step.head(rows.const_data_ptr<float>(), rows.size(0), logits.mutable_data_ptr<float>());
  }
  return logits.view(sizes);
}

std::shared_ptr<LanguageEngine> read_by_engine(const std::shared_ptr<LanguageModel>& model,
                                               Precision precision) {
  auto engine = std::make_shared<LanguageEngine>(*model, precision);
  model->read_by(engine);
  return engine;
}

namespace {

class EngineOfModel : public TextEngine {
 public:
  EngineOfModel(std::shared_ptr<LanguageModel> model, Precision precision)
      : model_(std::move(model)), engine_(*model_, precision) {}

  const LanguageConfig& config() const override { return engine_.config(); }
  Precision precision() const override { return engine_.precision(); }
  void expect_texts() override { engine_.expect_texts(); }
  Array extend(const int64_t* ids, int64_t batch, int64_t tokens, LanguageState& state) override {
    return array_of(engine_.extend(tensor_over(ids, batch, tokens), state));
  }
  Array step(const std::vector<int64_t>& ids, const std::vector<LanguageState*>& states) override {
    return array_of(engine_.step(ids, states));
  }
  Array hidden(const int64_t* ids, int64_t tokens, LanguageState& state) override {
    return array_of(engine_.hidden(tensor_over(ids, 1, tokens), &state)[0]);
  }
  Array logits(const Array& rows) override {
    return array_of(engine_.logits(tensor_of(rows.clone())));  // they may be a part of a tensor
  }
  Arrays weights() const override { return model_->weights(); }

 private:
  static Tensor tensor_over(const int64_t* ids, int64_t batch, int64_t tokens) {
    return torch::from_blob(const_cast<int64_t*>(ids), {batch, tokens}, torch::kLong);
  }

  const std::shared_ptr<LanguageModel> model_;
  LanguageEngine engine_;
};

}  // namespace

std::unique_ptr<TextEngine> text_engine(std::shared_ptr<LanguageModel> model, Precision precision) {
  return std::make_unique<EngineOfModel>(std::move(model), precision);
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
