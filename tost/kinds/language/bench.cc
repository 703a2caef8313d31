// Measures language models for `tost bench model`.
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

using torch::Tensor;

// Reads tokens after a state; shared by the engine and the plain model.
using Extend = std::function<Tensor(const Tensor& ids, LanguageState& state)>;

// On any device.
LanguageState tensors_copied(LanguageState state) {
  for (Arrays& block : state.blocks) {
    for (auto& [name, array] : block) array = array_of(tensor_of(array).clone());
  }
  return state;
}

BenchRunner prefill_runner(const Extend& extend, const Tensor& ids) {
  BenchRunner runner;
  runner.run = [extend, ids] {
    LanguageState state;
    return extend(ids, state);
  };
  return runner;
}

// Makes a runner whose repetitions all continue from the same state.
BenchRunner decode_runner(const Extend& extend, const Tensor& ids, const BenchTask& task) {
  auto start = std::make_shared<LanguageState>(), state = std::make_shared<LanguageState>();
  extend(ids.narrow(1, 0, task.size), *start);
  BenchRunner runner;
  runner.prepare = [start, state] { *state = tensors_copied(*start); };
  runner.run = [extend, ids, task, state] {
    Tensor last;
    for (int64_t i = 0; i < task.steps; ++i) {
      last = extend(ids.narrow(1, task.size + i, 1), *state);
    }
    return last;
  };
  return runner;
}

// The bytes of the weights that a step reads: all except tables, of which it reads single rows.
int64_t step_bytes(const LanguageModel& model) {
  int64_t bytes = 0;
  for (const auto& item : model.named_parameters()) {
    const bool looked_up = item.key().find(".wpe.") != std::string::npos ||
                           item.key().find("denom_bias") != std::string::npos;
    if (!looked_up) bytes += int64_t(item.value().nbytes());
  }
  return bytes;
}

class BenchLanguage : public BenchModel {
 public:
  BenchLanguage(std::shared_ptr<LanguageModel> model, LanguageInfo info)
      : model_(std::move(model)), info_(std::move(info)) {
    model_->eval();
  }

  const char* kind() const override { return "language"; }
  const char* unit() const override { return "tokens"; }
  std::string mixer() const override { return info_.config.mixer; }
  std::vector<std::string> tests() const override { return {"prefill", "decode"}; }
  int64_t default_size() const override {
    return info_.config.positions == "learned" ? std::max<int64_t>(1, info_.config.block / 2) : 512;
  }

  Tensor draw_input(const BenchTask& task) const override {
    torch::manual_seed(input_seed(task));
    const int64_t more = task.test == "decode" ? task.steps : 0;
    return torch::randint(0, info_.config.vocab, {task.batch, task.size + more}, torch::kLong);
  }

  BenchRunner make_runner(const BenchTask& task, const Tensor& input, Precision precision,
                          bool engine) override {
    Extend extend;
    int64_t bytes = 0;
    if (engine && !engine_has(model_->config())) {
      fail_usage("The engine lacks a mixer of this model or an addition to it; use --engine off.");
    }
    if (engine) {
      auto made = std::make_shared<LanguageEngine>(*model_, precision);
      bytes = made->step_bytes();
      extend = [made](const Tensor& ids, LanguageState& state) { return made->extend(ids, state); };
    } else {
      if (!facts_of(precision).modules) fail_precision(kind(), engine, precision);
      if (task.device.is_cpu()) {
        use_precision(*model_, precision);
        bytes = step_bytes(*model_);
      } else {
        place_language(model_, precision, task.device);
        bytes = step_bytes(*model_) * facts_of(precision).bits / 32;
      }
      extend = [model = model_](const Tensor& ids, LanguageState& state) {
        const torch::InferenceMode no_grad;
        return model->extend(ids, state);
      };
    }
    const PrecisionScope scope(engine ? Precision::kFp32 : scope_precision(precision, task.device),
                               task.device);
    auto runner =
        task.test == "decode" ? decode_runner(extend, input, task) : prefill_runner(extend, input);
    if (!task.device.is_cpu()) {
      runner.run = [run = runner.run, precision, device = task.device] {
        const PrecisionScope steps(precision, device);
        return run();
      };
    }
    runner.weight_bytes = bytes;
    return runner;
  }

  std::vector<Product> products(const BenchTask& task) const override {
    return language_products(*model_, task.batch, task.test == "decode" ? 1 : task.size);
  }

  void save(const std::string& file) const override { save_language_file(file, *model_, info_); }

 private:
  std::shared_ptr<LanguageModel> model_;
  LanguageInfo info_;
};

}  // namespace

std::vector<Product> language_products(const LanguageModel& model, int64_t batch, int64_t tokens) {
  std::vector<Product> products;
  add_linears(
      model,
      [&](const std::string& name) {
        return starts_with(name, "transformer.h.") ? batch * tokens : batch;
      },
      products);
  products.push_back(
      {.rows = batch, .inputs = model.config().dim, .outputs = model.config().vocab});
  return products;
}

std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file) {
  if (file) {
    LoadedLanguage loaded = load_language_file(source.name);
    return std::make_unique<BenchLanguage>(loaded.model, loaded.info);
  }
  LanguageInfo info;
  info.config = language_preset(source.name);
  if (!source.mixer.empty()) info.config.mixer = source.mixer;
  if (source.longest > info.config.block) info.config.positions = "none";
  info.config.dropout = 0;
  auto model = make_language_model(info.config);
  show_every_layer(*model);
  return std::make_unique<BenchLanguage>(std::move(model), std::move(info));
}

}  // namespace tost
