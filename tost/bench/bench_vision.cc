#include "tost/base/error.h"
#include "tost/bench/bench_model_parts.h"
#include "tost/eval/image_runner.h"
#include "tost/eval/model_file.h"
#include "tost/infer/vision_engine.h"
#include "tost/models/vision_cost.h"
#include "tost/models/vision_presets.h"

namespace tost {
namespace {

using torch::Tensor;

class BenchVision : public BenchModel {
 public:
  BenchVision(std::shared_ptr<ImageClassifier> model, ModelInfo info)
      : model_(std::move(model)), info_(std::move(info)) {
    model_->eval();
    weights_ = parameter_count(*model_);
  }

  const char* kind() const override { return "vision"; }
  std::string mixer() const override { return info_.config.mixer; }
  std::vector<std::string> tests() const override { return {"forward"}; }
  int64_t default_size() const override { return info_.config.image_size; }

  Tensor draw_input(const BenchTask& task) const override {
    torch::manual_seed(input_seed(task));
    return torch::randn({task.batch, info_.config.in_channels, task.size, task.size});
  }

  BenchRunner make_runner(const BenchTask& task, const Tensor& input, const std::string& precision,
                          bool engine) override {
    BenchRunner runner;
    if (engine) {
      if (precision == "int4" || !VisionEngine::supports(*model_)) {
        fail_precision(kind(), engine, precision);
      }
      auto made = std::make_shared<VisionEngine>(*model_, precision);
      model_.reset();  // the engine has weights of its own; the mixers it shares it holds
      runner.weight_bytes = weights_ * (precision == "fp32" ? 4 : precision == "bf16" ? 2 : 1);
      runner.run = [made, input] {
        const torch::InferenceMode no_grad;
        return made->forward(input);
      };
      return runner;
    }
    if (precision != "fp32" && precision != "bf16") fail_precision(kind(), engine, precision);
    runner.weight_bytes = 4 * weights_;  // rounded at every use
    model_->to(task.device);
    auto plain = std::make_shared<ImageRunner>(*model_, precision, /*engine=*/false, task.graphs);
    runner.by_graphs = [plain] { return plain->call().replays() > 0; };
    runner.run = [model = model_, plain, images = input.to(task.device)] {
      return plain->logits(images);
    };
    return runner;
  }

  std::vector<Product> products(const BenchTask& task) const override {
    return model_products(*model_, task.batch, task.size);
  }

  void save(const std::string& file) const override { save_model_file(file, *model_, info_); }

 private:
  std::shared_ptr<ImageClassifier> model_;
  ModelInfo info_;
  int64_t weights_ = 0;
};

ModelInfo info_of_preset(const VisionConfig& config) {
  ModelInfo info;
  info.config = config;
  for (int64_t i = 0; i < config.classes; ++i) info.classes.push_back(cat("class ", i));
  info.preprocess.size = config.image_size;
  info.preprocess.channels = config.in_channels;
  return info;
}

// Batch norms take the statistics of two random pictures.
void settle_batch_norms(ImageClassifier& model) {
  const torch::NoGradGuard no_grad;
  std::vector<std::pair<torch::nn::BatchNorm2dImpl*, std::optional<double>>> norms;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto* norm = module->as<torch::nn::BatchNorm2dImpl>();
    if (norm == nullptr) continue;
    norms.emplace_back(norm, norm->options.momentum());
    norm->options.momentum(1.0);
  }
  if (norms.empty()) return;
  const VisionConfig& c = model.config();
  model.train();
  model.forward(torch::randn({2, c.in_channels, c.image_size, c.image_size}));
  for (const auto& [norm, momentum] : norms) norm->options.momentum(momentum);
}

}  // namespace

std::unique_ptr<BenchModel> open_bench_vision(const BenchModelSource& source, bool file) {
  if (file) {
    LoadedModel loaded = load_model_file(source.name);
    return std::make_unique<BenchVision>(loaded.model, loaded.info);
  }
  VisionConfig config = vision_preset(source.name);
  if (!source.mixer.empty()) config.mixer = source.mixer;
  config.drop_path = 0;
  auto model = make_image_classifier(config);
  show_every_layer(*model);
  settle_batch_norms(*model);
  return std::make_unique<BenchVision>(std::move(model), info_of_preset(config));
}

}  // namespace tost
