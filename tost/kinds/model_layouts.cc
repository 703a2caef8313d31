#include "tost/kinds/model_layouts.h"

#include <torch/nn/functional.h>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/bpe_files.h"
#include "tost/io/parse_json.h"
#include "tost/io/torch_writer.h"
#include "tost/nn/hidden_width.h"
#include "tost/store/foreign_facts.h"

namespace tost {
namespace {

using nlohmann::ordered_json;
using DictKind = TorchItem::Dict;

constexpr char kTokens[] = "transformer.wte.weight";

TorchDtype dtype_of(const std::string& name, const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return TorchDtype::kFloat32;
    case torch::kFloat16:
      return TorchDtype::kFloat16;
    case torch::kBFloat16:
      return TorchDtype::kBFloat16;
    case torch::kFloat64:
      return TorchDtype::kFloat64;
    case torch::kInt64:
      return TorchDtype::kInt64;
    default:
      fail_data("Tensor '", name, "' is of a type that models do not have.");
  }
}

TorchItem array_of(const std::string& name, const torch::Tensor& tensor) {
  TorchItem item;
  item.value = TorchArray{dtype_of(name, tensor),
                          tensor.sizes().vec(),
                          {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}};
  return item;
}

template <class T>
TorchItem leaf(T value) {
  TorchItem item;
  item.value = std::move(value);
  return item;
}

TorchItem vision_args(const ModelInfo& info) {
  TorchItem args = torch_dict(DictKind::kNamespace);
  args.add("model", leaf(info.config.name));
  args.add("input_size", leaf(info.config.image_size));
  args.add("tokens_norm", leaf(info.config.tokens_norm));
  args.add("drop_path", leaf(info.config.drop_path));
  args.add("nb_classes", leaf(info.config.classes));
  return args;
}

TorchItem language_args(const LanguageConfig& c) {
  TorchItem args = torch_dict();
  args.add("n_layer", leaf(c.depth));
  args.add("n_head", leaf(c.heads));
  args.add("n_embd", leaf(c.dim));
  args.add("block_size", leaf(c.block));
  args.add("bias", leaf(c.bias));
  args.add("vocab_size", leaf(c.vocab));
  args.add("dropout", leaf(c.dropout));
  return args;
}

ordered_json image_processor(const Preprocess& p) {
  const int64_t shorter = static_cast<int64_t>(double(p.size) / p.crop_ratio);
  const bool crop = p.resize == "crop";
  return {{"image_processor_type", "ViTImageProcessor"},
          {"do_convert_rgb", p.channels == 3},
          {"do_resize", true},
          {"size", crop ? ordered_json{{"shortest_edge", shorter}}
                        : ordered_json{{"height", p.size}, {"width", p.size}}},
          {"resample", p.interpolation == "bicubic" ? 3 : 2},
          {"do_center_crop", crop},
          {"crop_size", {{"height", p.size}, {"width", p.size}}},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", p.mean.empty() ? std::vector<double>(size_t(p.channels), 0) : p.mean},
          {"image_std", p.std.empty() ? std::vector<double>(size_t(p.channels), 1) : p.std}};
}

// By label, as transformers has it.
ordered_json label_names(const std::vector<std::string>& classes) {
  ordered_json names = ordered_json::object();
  for (size_t k = 0; k < classes.size(); ++k) names[cat(k)] = classes[k];
  return names;
}

std::map<std::string, std::string> tokenizer_files(const LanguageInfo& info) {
  if (info.tokenizer == nullptr) return {};
  const nlohmann::json tokenizer = info.tokenizer->to_json();
  if (info.tokenizer->kind() != "gpt2")
    return {{"tost_tokenizer.json", json_text(tokenizer) + "\n"}};
  const BpeFiles files = write_bpe_files(
      tokens_from_base64(tokenizer.at("tokens").get<std::string>(), "its tokenizer"));
  const ordered_json config{
      {"tokenizer_class", "GPT2Tokenizer"}, {"model_max_length", info.config.block},
      {"bos_token", "<|endoftext|>"},       {"eos_token", "<|endoftext|>"},
      {"unk_token", "<|endoftext|>"},       {"add_prefix_space", false}};
  return {{"vocab.json", files.vocabulary},
          {"merges.txt", files.merges},
          {"tokenizer_config.json", json_text(config, 2) + "\n"}};
}

}  // namespace

void write_torch_layout(const PortableModel& model, const std::filesystem::path& file,
                        const std::string& prefix) {
  StateDict whole;  // keeps the bytes alive
  TorchItem state = torch_dict(DictKind::kOrdered);
  for (const auto& [name, tensor] : model.state) {
    whole[name] = tensor.contiguous();
    state.add(prefix + name, array_of(name, whole[name]));
  }
  if (model.language) state.add(prefix + "lm_head.weight", array_of(kTokens, whole.at(kTokens)));
  TorchItem root = torch_dict();
  root.add("model", std::move(state));
  if (model.vision) root.add("args", vision_args(*model.vision));
  if (model.language) root.add("model_args", language_args(model.language->config));
  root.add(kDescriptionKey, leaf(json_text(model.description())));
  save_torch_file(file, root);
}

std::map<std::string, std::string> hub_files(const PortableModel& model, const std::string& dtype) {
  std::map<std::string, std::string> files;
  ordered_json config{{"model_type", "tost"}, {"torch_dtype", dtype}};
  if (model.vision) {
    const VisionConfig& c = model.vision->config;
    config["architectures"] = {"TostForImageClassification"};
    config.update({{"mixer", c.mixer},
                   {"image_size", c.image_size},
                   {"patch_size", c.patch},
                   {"num_channels", c.in_channels},
                   {"hidden_size", c.dim},
                   {"num_hidden_layers", c.depth},
                   {"num_class_layers", c.class_blocks},
                   {"num_attention_heads", c.heads},
                   {"mlp_ratio", c.mlp_ratio},
                   {"qkv_bias", c.qkv_bias},
                   {"num_labels", c.classes},
                   {"id2label", label_names(model.vision->classes)}});
    files["preprocessor_config.json"] =
        json_text(image_processor(model.vision->preprocess), 2) + "\n";
  } else if (model.sequence) {
    const SequenceConfig& c = model.sequence->config;
    config["architectures"] = {"TostForSequenceClassification"};
    config.update({{"mixer", c.mixer},
                   {"vocab_size", c.vocab},
                   {"hidden_size", c.dim},
                   {"num_hidden_layers", c.depth},
                   {"num_attention_heads", c.heads},
                   {"num_labels", c.classes},
                   {"id2label", label_names(model.sequence->classes)}});
  } else {
    const LanguageConfig& c = model.language->config;
    config["architectures"] = {"TostForCausalLM"};
    config.update({{"mixer", c.mixer},
                   {"vocab_size", c.vocab},
                   {"n_positions", c.block},
                   {"hidden_size", c.dim},
                   {"num_hidden_layers", c.depth},
                   {"num_attention_heads", c.heads},
                   {"mlp_ratio", c.mlp_ratio},
                   {"tie_word_embeddings", true}});
    files = tokenizer_files(*model.language);
  }
  config["tost"] = model.description().at("config");
  files["config.json"] = json_text(config, 2) + "\n";
  return files;
}

std::map<std::string, std::string> timm_files(const PortableModel& model) {
  if (!model.vision) fail_usage("The layout timm is for image models; this is a language model.");
  const VisionConfig& c = model.vision->config;
  const Preprocess& p = model.vision->preprocess;
  const std::vector<double> mean =
      p.mean.empty() ? std::vector<double>(size_t(p.channels), 0) : p.mean;
  const std::vector<double> std =
      p.std.empty() ? std::vector<double>(size_t(p.channels), 1) : p.std;
  const ordered_json config{{"architecture", c.name},
                            {"num_classes", c.classes},
                            {"num_features", c.dim},
                            {"label_names", model.vision->classes},
                            {"pretrained_cfg",
                             {{"input_size", {c.in_channels, c.image_size, c.image_size}},
                              {"fixed_input_size", false},
                              {"interpolation", p.interpolation},
                              {"crop_pct", p.crop_ratio},
                              {"crop_mode", p.resize == "crop" ? "center" : "squash"},
                              {"mean", mean},
                              {"std", std},
                              {"num_classes", c.classes},
                              {"first_conv", "patch_embed.proj.0.0"},
                              {"classifier", "head"}}}};
  return {{"config.json", json_text(config, 2) + "\n"}};
}

std::map<std::string, std::string> gpt2_files(const PortableModel& model,
                                              const std::string& dtype) {
  const LanguageConfig& c = model.language->config;
  const auto& tokenizer = model.language->tokenizer;
  const int64_t end = tokenizer != nullptr ? tokenizer->end_of_text() : -1;
  ordered_json config{{"model_type", "gpt2"},
                      {"architectures", {"GPT2LMHeadModel"}},
                      {"torch_dtype", dtype},
                      {"activation_function", c.activation == "gelu" ? "gelu" : "gelu_new"},
                      {"n_layer", c.depth},
                      {"n_head", c.heads},
                      {"n_embd", c.dim},
                      {"n_inner", hidden_width(c.dim, c.mlp_ratio)},
                      {"n_positions", c.block},
                      {"n_ctx", c.block},
                      {"vocab_size", c.vocab},
                      {"layer_norm_epsilon", 1e-5},
                      {"tie_word_embeddings", true}};
  if (end >= 0) config.update({{"bos_token_id", end}, {"eos_token_id", end}});
  auto files = tokenizer_files(*model.language);
  files["config.json"] = json_text(config, 2) + "\n";
  return files;
}

StateDict gpt2_state(const PortableModel& model) {
  StateDict state;
  for (const auto& [name, tensor] : model.state) {
    const bool linear = ends_with(name, ".c_attn.weight") || ends_with(name, ".c_proj.weight") ||
                        ends_with(name, ".c_fc.weight");
    state[name] = linear ? tensor.t().contiguous() : tensor;
  }
  return state;
}

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
      config.options.conv > 0 || config.options.window > 0 || config.options.gate) {
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
