#include "tost/kinds/portable_model.h"

#include <torch/nn/functional.h>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr char kPositions[] = "transformer.wpe.weight";

LanguageConfig& language_of(PortableModel& model, const char* what) {
  if (model.language) return model.language->config;
  fail_usage(what, " is for language models, and this is ",
             model.vision ? "an image" : "a sequence", " model.");
}

// Rows of `table` at `rows` evenly spaced places from its first to its last.
torch::Tensor stretched(const torch::Tensor& table, int64_t rows) {
  namespace F = torch::nn::functional;
  return F::interpolate(table.t().unsqueeze(0), F::InterpolateFuncOptions()
                                                    .size(std::vector<int64_t>{rows})
                                                    .mode(torch::kLinear)
                                                    .align_corners(true))
      .squeeze(0)
      .t()
      .contiguous();
}

}  // namespace

nlohmann::json PortableModel::description() const {
  return vision ? to_json(*vision) : language ? to_json(*language) : to_json(*sequence);
}

std::map<std::string, std::string> PortableModel::metadata() const {
  return vision ? to_metadata(*vision) : language ? to_metadata(*language) : to_metadata(*sequence);
}

PortableModel load_portable(const std::filesystem::path& path, Weights weights) {
  PortableModel portable;
  portable.kind = model_kind(path, weights);
  if (portable.kind == "vision") {
    LoadedModel loaded = load_model_file(path, weights);
    portable.vision = std::move(loaded.info);
    portable.state = state_dict(*loaded.model);
  } else if (portable.kind == "language") {
    LoadedLanguage loaded = load_language_file(path, weights);
    portable.language = std::move(loaded.info);
    portable.state = state_dict(*loaded.model);
  } else {
    LoadedSequence loaded = load_sequence_file(path, weights);
    portable.sequence = std::move(loaded.info);
    portable.state = state_dict(*loaded.model);
  }
  return portable;
}

void change_image_size(PortableModel& model, int64_t side) {
  if (!model.vision) {
    fail_usage("An image size is for image models, and this is a ", model.kind, " model.");
  }
  model.vision->config.image_size = side;
  validate(model.vision->config);
  model.vision->preprocess.size = side;
}

void change_block(PortableModel& model, int64_t block) {
  LanguageConfig& config = language_of(model, "A block");
  const int64_t before = config.block;
  if (config.options.bias_positions < 0) config.options.bias_positions = before;
  config.block = block;
  if (config.mixer != "tssa" && config.hybrid_mixer != "tssa") config.options.bias_positions = -1;
  if (config.options.bias_positions == block) config.options.bias_positions = -1;
  validate(config);
  const auto positions = model.state.find(kPositions);
  if (positions == model.state.end()) return;
  torch::Tensor& table = positions->second;
  table = block <= before ? table.narrow(0, 0, block).contiguous() : stretched(table, block);
}

void change_dtype(StateDict& state, const std::string& dtype) {
  const auto type = dtype == "float32"    ? torch::kFloat32
                    : dtype == "bfloat16" ? torch::kBFloat16
                    : dtype == "float16"
                        ? torch::kFloat16
                        : throw Error(ErrorKind::kUsage,
                                      cat("There is no type '", dtype,
                                          "' to convert to; float32, bfloat16 and float16 are."));
  for (auto& [name, tensor] : state) {
    if (!tensor.is_floating_point()) continue;
    const torch::Tensor before = tensor;
    tensor = tensor.to(type);
    if (type == torch::kFloat16 && (tensor.isinf() & before.isfinite()).any().item<bool>()) {
      fail_usage("Tensor '", name,
                 "' has values beyond 65,504, which float16 cannot hold; use "
                 "bfloat16.");
    }
  }
}

void fold_layer_scale(PortableModel& model, bool with_biases) {
  LanguageConfig& config = language_of(model, "This layout");
  if (config.mixer != "softmax" || config.hybrid_every > 0 || config.positions != "learned" ||
      config.options.conv > 0 || config.options.window > 0) {
    fail_usage(
        "This layout holds plain softmax language models with learned positions; the mixer "
        "is ",
        config.mixer, config.mixer == "softmax" ? " with additions." : ".");
  }
  StateDict& state = model.state;
  for (int64_t i = 0; i < config.depth; ++i) {
    const std::string block = cat("transformer.h.", i, ".");
    for (const auto& [gamma, projection] : {std::pair{"gamma1", "attn"}, {"gamma2", "mlp"}}) {
      const torch::Tensor scale = state.at(block + gamma);
      const std::string name = cat(block, projection, ".c_proj.");
      state[name + "weight"] = state.at(name + "weight") * scale.unsqueeze(1);
      if (config.bias) state[name + "bias"] = state.at(name + "bias") * scale;
      state.erase(block + gamma);
    }
  }
  config.layer_scale = 1;
  if (!with_biases || config.bias) return;
  config.bias = true;
  StateDict biases;
  for (const auto& [name, tensor] : state) {
    const bool table = ends_with(name, ".wte.weight") || ends_with(name, ".wpe.weight");
    if (table || !ends_with(name, ".weight")) continue;
    biases.emplace(name.substr(0, name.size() - 6) + "bias", torch::zeros({tensor.size(0)}));
  }
  state.merge(biases);
}

}  // namespace tost
