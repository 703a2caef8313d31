// Measures language models for `tost bench model`.
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/bench/engine_bench.h"
#include "tost/bench/product_floor.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

// On any device.
LanguageState tensors_copied(const LanguageState& state) {
  LanguageState copy = state;
  for (Arrays& block : copy.blocks) {
    for (auto& [name, array] : block) array = array_of(tensor_of(array).clone());
  }
  return copy;
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

class BenchLanguage : public BenchTexts {
 public:
  BenchLanguage(std::shared_ptr<LanguageModel> model, LanguageInfo info)
      : BenchTexts(info.config,
                   [this](Precision precision) {
                     if (!engine_has(model_->config())) {
                       fail_usage(
                           "The engine lacks a mixer of this model or an addition to it; use "
                           "--engine off.");
                     }
                     return text_engine(*model_, precision);
                   }),
        model_(std::move(model)),
        info_(std::move(info)) {
    model_->eval();
  }

  BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                          bool engine) override {
    if (engine) return BenchTexts::make_runner(task, input, precision, engine);
    if (!facts_of(precision).modules) fail_precision(facts.kind, engine, precision);
    const torch::Device device = device_from_name(task.device);
    if (device.is_cpu()) {
      use_precision(*model_, precision);
    } else {
      place_language(model_, precision, device);
    }
    const auto extend = [model = model_](const Array& ids, LanguageState& state) {
      const torch::InferenceMode no_grad;
      return array_of(model->extend(tensor_of(ids), state));
    };
    const auto scoped = scope_precision(precision, device);
    const PrecisionScope scope(scoped, device);
    auto runner = runner_of(task, input, extend, tensors_copied);
    runner.run = [run = runner.run, scoped, device] {
      const PrecisionScope steps(scoped, device);
      return run();
    };
    runner.weight_bytes =
        step_bytes(*model_) * (device.is_cpu() ? 32 : facts_of(precision).bits) / 32;
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
