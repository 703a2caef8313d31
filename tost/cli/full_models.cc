// Opens models with torch for tost generate and tost serve: any mixer, any file, any device, and
// explanations.
#include "tost/cli/commands.h"
#include "tost/cli/generate.h"
#include "tost/cli/serve.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/explain_trace.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/kinds/vision/explain_report.h"
#include "tost/nn/module_device.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

OpenedText open_with_torch(const TextChoice& o) {
  auto loaded = load_language_file(o.checkpoint, o.ema ? Weights::kEma : Weights::kRaw);
  choose_tokenizer({.name = o.tokenizer}, loaded);
  needed_tokenizer(loaded.info, "it cannot write text");
  const torch::Device device = device_from_name(o.device);
  if (!o.precision.empty()) {
    loaded.precision = precision_from_name(o.precision, language_precisions(device));
  }
  place_language(loaded.model, loaded.precision, device);
  const auto scope =
      std::make_shared<PrecisionScope>(scope_precision(loaded.precision, device), device);
  return {loaded.model, loaded.info, loaded.file.string(), scope};
}

void serve_language(const ServeChoice& o, ServedModel& model, const ServiceLimits& limits,
                    Metrics& metrics) {
  auto loaded = load_language_file(o.path);
  if (loaded.info.tokenizer == nullptr) choose_tokenizer({.name = o.tokenizer}, loaded);
  const auto precision = o.precision.empty() ? loaded.precision : precision_from_name(o.precision);
  ServedText text{.model = text_engine(loaded.model, precision), .info = loaded.info};
  if (o.explain) {
    text.explain = [network = loaded.model](const std::vector<int32_t>& ids) {
      return to_json(trace_text(*network, torch::tensor(ids, torch::kLong).unsqueeze(0)));
    };
  }
  model.language = std::make_unique<LanguageService>(std::move(text), limits, metrics);
}

class Classifier : public PictureModel {
 public:
  Classifier(LoadedModel loaded, Precision precision, bool explains)
      : loaded_(std::move(loaded)),
        precision_(precision),
        explains_(explains),
        runner_(*loaded_.model, precision, /*engine=*/VisionEngine::supports(*loaded_.model)) {}

  Precision precision() const override { return precision_; }
  const std::vector<std::string>& classes() const override { return loaded_.info.classes; }
  int64_t side() const override { return loaded_.info.preprocess.size; }
  Image fit(const Image& picture) const override {
    return fit_image(picture, loaded_.info.preprocess);
  }
  std::vector<std::vector<double>> classify(const std::vector<Image>& pictures) override {
    const torch::InferenceMode no_grad;
    const auto& p = loaded_.info.preprocess;
    const Normalizer normalize(p);
    const auto batch = torch::empty({int64_t(pictures.size()), p.channels, p.size, p.size});
    for (size_t i = 0; i < pictures.size(); ++i) {
      normalize(pictures[i], batch[int64_t(i)].data_ptr<float>());
    }
    const auto shares = runner_.logits(batch).to(torch::kDouble).softmax(1).contiguous();
    std::vector<std::vector<double>> result;
    for (size_t i = 0; i < pictures.size(); ++i) {
      const auto* row = shares[int64_t(i)].const_data_ptr<double>();
      result.emplace_back(row, row + shares.size(1));
    }
    return result;
  }
  bool explains() const override { return explains_; }
  std::function<nlohmann::json()> explain(const Image& picture) override {
    return [this, input = picture_input(picture, loaded_.info.preprocess)] {
      return to_json(picture_maps(*loaded_.model, loaded_.info, input));
    };
  }

 private:
  const LoadedModel loaded_;
  const Precision precision_;
  const bool explains_;
  ImageRunner runner_;
};

void serve_pictures(const ServeChoice& o, ServedModel& model, const ServiceLimits& limits,
                    Metrics&) {
  auto loaded = load_model_file(o.path);
  const auto precision = chosen_precision(
      o.precision, loaded.precision, classifier_precisions(VisionEngine::supports(*loaded.model)));
  model.pictures = std::make_unique<PictureService>(
      std::make_unique<Classifier>(std::move(loaded), precision, o.explain), limits.queue);
}

OpenServed find_with_torch(const ServeChoice& choice) {
  const auto kind = model_kind(choice.path);
  if (kind == kLanguageKind) return std::bind_front(serve_language, choice);
  if (kind == "vision") return std::bind_front(serve_pictures, choice);
  fail_usage("'", choice.path, "' holds a ", kind,
             " model; language models and image classifiers are served.");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  add_generate_command(app, open_with_torch);
}

void add_serve_command(CLI::App& app) {
  add_serve_command(app, find_with_torch);
}

}  // namespace tost
