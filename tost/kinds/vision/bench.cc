// Measures image classifiers for `tost bench model`.
#include <optional>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/bench/engine_bench.h"
#include "tost/bench/product_floor.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

class BenchVision : public BenchPictures {
 public:
  BenchVision(std::shared_ptr<ImageClassifier> model, ModelInfo info)
      : BenchPictures(info.config, parameter_count(*model),
                      [this](Precision precision) {
                        if (!VisionEngine::supports(*model_)) {
                          fail_precision(facts.kind, /*engine=*/true, precision);
                        }
                        auto made = picture_engine(*model_, precision);
                        model_.reset();  // the engine has what it needs
                        return made;
                      }),
        model_(std::move(model)),
        info_(std::move(info)) {
    model_->eval();
  }

  BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                          bool engine) override {
    if (engine) return BenchPictures::make_runner(task, input, precision, engine);
    if (!facts_of(precision).modules) fail_precision(facts.kind, engine, precision);
    BenchRunner runner;
    runner.weight_bytes = 4 * weights_;  // rounded at every use
    const torch::Device device = device_from_name(task.device);
    model_->to(device);
    auto plain = std::make_shared<ImageRunner>(*model_, precision, /*engine=*/false);
    runner.run = [model = model_, plain, images = tensor_of(input).to(device)] {
      return array_of(plain->logits(images));
    };
    return runner;
  }

  std::vector<Product> products(const BenchTask& task) const override {
    return vision_products(*model_, task.batch, task.size);
  }

  void save(const std::string& file) const override { save_model_file(file, *model_, info_); }

 private:
  std::shared_ptr<ImageClassifier> model_;
  ModelInfo info_;
};

ModelInfo info_of_preset(const VisionConfig& config) {
  ModelInfo info;
  info.config = config;
  for (int64_t i = 0; i < config.classes; ++i) info.classes.push_back(cat("class ", i));
  info.preprocess.size = config.image_size;
  info.preprocess.channels = config.in_channels;
  return info;
}

// Gives batch norms the statistics of two random pictures.
void update_batch_norms(ImageClassifier& model) {
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

std::vector<Product> vision_products(const ImageClassifier& model, int64_t batch, int64_t side) {
  std::vector<Product> products;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* conv = module->as<torch::nn::Conv2dImpl>();
    if (conv == nullptr || conv->weight.size(2) != 3) continue;
    const int64_t stride = conv->options.stride()->at(0), from = conv->weight.size(1);
    products.push_back({.rows = batch * (side / stride) * (side / stride),
                        .inputs = 9 * from,
                        .outputs = conv->weight.size(0),
                        .batch = batch,
                        .channels = from,
                        .height = side,
                        .width = side,
                        .stride = stride});
    side /= stride;
  }
  const int64_t tokens = batch * (side * side + model.config().registers);
  const auto is_class_qkv = [](const std::string& name) {
    return starts_with(name, "cls_attn_blocks.") && ends_with(name, "attn.qkv");
  };
  // Counts queries for the class token only, but keys and values for every token.
  const int64_t dim = model.config().dim;
  for (int64_t i = 0; i < model.config().class_blocks; ++i) {
    products.push_back({.rows = batch, .inputs = dim, .outputs = 3 * dim});
    products.push_back({.rows = tokens, .inputs = dim, .outputs = 2 * dim});
  }
  add_linears(
      model,
      [&](const std::string& name) {
        return is_class_qkv(name) ? 0 : starts_with(name, "blocks.") ? tokens : batch;
      },
      products);
  return products;
}

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
  update_batch_norms(*model);
  return std::make_unique<BenchVision>(std::move(model), info_of_preset(config));
}

}  // namespace tost
