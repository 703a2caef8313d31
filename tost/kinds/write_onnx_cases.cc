// Writes small random models as ONNX files, each with inputs and the outputs of this program next
// to it, for tests/python/test_onnx.py. usage: write_onnx_cases FOLDER
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/safetensors.h"
#include "tost/kinds/language/onnx.h"
#include "tost/kinds/vision/onnx.h"

namespace tost {
namespace {

using torch::Tensor;
using Tensors = std::map<std::string, Tensor>;

// Weights as after some training: nothing is at its start, so every part shows.
template <class Model>
void shake(Model& model) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    parameter.add_(0.2 * torch::randn_like(parameter));
  }
  for (auto& buffer : model.buffers()) {
    if (buffer.is_floating_point()) buffer.add_(torch::rand_like(buffer));
  }
  model.eval();
}

void save(const std::filesystem::path& folder, const std::string& name, const OnnxGraph& graph,
          const Tensors& tensors) {
  graph.save(folder / (name + ".onnx"), "test", {{"name", name}});
  save_safetensors(folder / (name + ".safetensors"), tensors);
}

void write_vision(const std::filesystem::path& folder, const std::string& name,
                  const VisionConfig& config) {
  const auto model = make_image_classifier(config);
  shake(*model);
  const bool memberships = config.mixer == "tssa";
  const Tensor images = torch::randn({3, config.in_channels, config.image_size, config.image_size});
  VisionTrace trace;
  const torch::NoGradGuard no_grad;
  Tensors tensors{{"in.images", images}, {"out.logits", model->forward_traced(images, trace)}};
  for (size_t i = 0; memberships && i < trace.blocks.size(); ++i) {
    tensors[cat("out.membership_", i + 1)] = trace.blocks[i].mixer.pi;
  }
  save(folder, name, vision_onnx(*model, memberships), tensors);
}

void write_language(const std::filesystem::path& folder, const std::string& name,
                    const LanguageConfig& config) {
  const auto model = make_language_model(config);
  shake(*model);
  const Tensor ids = torch::randint(0, config.vocab, {2, 11}, torch::kLong);
  const torch::NoGradGuard no_grad;
  save(folder, name, language_onnx(*model), {{"in.ids", ids}, {"out.logits", model->forward(ids)}});
}

void write_all(const std::filesystem::path& folder) {
  torch::manual_seed(11);
  VisionConfig v{.mixer = "tssa",
                 .image_size = 32,
                 .patch = 8,
                 .dim = 32,
                 .depth = 2,
                 .heads = 4,
                 .classes = 5};
  write_vision(folder, "vision_tssa", v);
  v.registers = 3;
  v.tokens_norm = false;
  v.qkv_bias = false;
  v.in_channels = 1;
  v.stem_depth = 2;
  write_vision(folder, "vision_registers", v);
  for (const char* mixer : {"uniform", "none", "softmax"}) {
    v.mixer = mixer;
    write_vision(folder, cat("vision_", mixer), v);
  }
  LanguageConfig c;
  c.vocab = 29;
  c.block = 16;
  c.dim = 24;
  c.depth = 2;
  c.heads = 3;
  write_language(folder, "language_tssa", c);
  c.bias = true;
  c.options.bias_positions = 5;
  c.activation = "gelu-tanh";
  write_language(folder, "language_short_bias", c);
  c.positions = "none";
  c.options.conv = 4;
  c.options.decay = "learned";
  c.options.gate = true;
  c.options.means = "values";
  c.options.scale_pi = true;
  write_language(folder, "language_additions", c);
  c.options = {};
  c.mixer = "means";
  c.options.conv = 4;
  c.options.decay = "learned";
  c.options.gate = true;
  write_language(folder, "language_means", c);
}

}  // namespace
}  // namespace tost

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    tost::write_all(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
