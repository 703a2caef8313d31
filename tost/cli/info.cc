// tost info: what was built, what this CPU offers, which paths run, and the models there are.
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/kernels/isa.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/vision/cost.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/kinds/vision/presets.h"
#include "tost/nn/state_dict.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/device.h"
#include "tost/ops/product_support.h"
#include "tost/torch.h"

namespace tost {
namespace {

struct InfoOptions {
  RunOptions run;
  bool models = false;
};

nlohmann::json describe_build() {
  return {{"version", TOST_VERSION},   {"compiler", __VERSION__},
          {"torch", TORCH_VERSION},    {"torch_onednn", at::hasMKLDNN()},
          {"torch_mkl", at::hasMKL()}, {"cuda", built_with_cuda()}};
}

nlohmann::json describe_machine() {
  return {{"cpu", cpu_name()}, {"features", cpu_features()}, {"threads", at::get_num_threads()}};
}

// How TSSA is computed on a GPU.
std::string gpu_path(const GpuFacts& gpu) {
  return gpu.has_kernels ? "fused kernels, float32 arithmetic; float64 by the plain definition"
                         : "torch's operators: the kernels need compute capability 8.0 or newer";
}

nlohmann::json describe_gpus() {
  nlohmann::json gpus = nlohmann::json::array();
  for (int64_t i = 0; i < gpu_count(); ++i) {
    const auto gpu = gpu_facts(i);
    if (!gpu) continue;
    gpus.push_back({{"device", cat("cuda:", i)},
                    {"name", gpu->name},
                    {"compute_capability", cat(gpu->major, ".", gpu->minor)},
                    {"multiprocessors", gpu->multiprocessors},
                    {"memory_bytes", gpu->memory_bytes},
                    {"l2_bytes", gpu->l2_bytes},
                    {"shared_bytes_per_block", gpu->shared_bytes},
                    {"tssa", gpu_path(*gpu)}});
  }
  return gpus;
}

// By what the inference engine computes each kind of product.
nlohmann::json describe_products() {
  return {{"float32", product_way(Packing::kFloat32)},
          {"bfloat16", product_way(Packing::kBfloat16)},
          {"int8", product_way(Packing::kInt8)}};
}

nlohmann::json describe_paths() {
  return {{"tssa_isa", kernels::current_isa()},
          {"isas", kernels::supported_isas()},
          {"tssa_float32", "fused kernels"},
          {"tssa_bfloat16", "fused kernels, float32 arithmetic"},
          {"tssa_float64", "plain definition"},
          {"products", describe_products()},
          {"allocator", caching_allocator_enabled() ? "caching" : "system"},
          {"mixers", mixer_names()},
          {"causal_mixers", causal_mixer_names()}};
}

nlohmann::json describe_model(const std::string& name) {
  const VisionConfig config = vision_preset(name);
  const auto model = make_image_classifier(config, WeightInit::kNone);
  return {{"name", name},
          {"mixer", config.architecture == "linear" ? "none" : config.mixer},
          {"image_size", config.image_size},
          {"patch", config.patch},
          {"dim", config.dim},
          {"depth", config.depth},
          {"heads", config.heads},
          {"classes", config.classes},
          {"parameters", parameter_count(*model)},
          {"gmac",
           static_cast<double>(vision_multiply_adds(config, config.image_size, config.image_size)) /
               1e9}};
}

nlohmann::json describe_language_model(const std::string& name) {
  const LanguageConfig config = language_preset(name);
  const auto model = make_language_model(config, WeightInit::kNone);
  return {{"name", name},
          {"mixer", config.mixer},
          {"block", config.block},
          {"positions", config.positions},
          {"vocab", config.vocab},
          {"dim", config.dim},
          {"depth", config.depth},
          {"heads", config.heads},
          {"parameters", parameter_count(*model)}};
}

nlohmann::json describe_sequence_model(const std::string& name) {
  const SequenceConfig config = sequence_preset(name);
  const auto model = make_sequence_classifier(config, WeightInit::kNone);
  return {{"name", name},
          {"mixer", config.mixer},
          {"max_length", config.max_length},
          {"positions", config.positions},
          {"pool", config.pool},
          {"dim", config.dim},
          {"depth", config.depth},
          {"heads", config.heads},
          {"parameters", parameter_count(*model)}};
}

void print_sequence_models(const nlohmann::json& models) {
  std::cout << "\n"
            << std::left << std::setw(26) << "sequence model" << std::right << std::setw(8)
            << "length" << std::setw(6) << "dim" << std::setw(6) << "depth" << std::setw(6)
            << "heads" << std::setw(14) << "parameters"
            << "\n";
  for (const auto& m : models) {
    std::cout << std::left << std::setw(26) << m["name"].get<std::string>() << std::right
              << std::setw(8) << m["max_length"].get<int64_t>();
    for (const char* key : {"dim", "depth", "heads"}) {
      std::cout << std::setw(6) << m[key].get<int64_t>();
    }
    std::cout << std::setw(14) << human_number(m["parameters"].get<int64_t>()) << "\n";
  }
  std::cout << "They take the vocabulary and the classes of their data.\n";
}

void print_language_models(const nlohmann::json& models) {
  std::cout << "\n"
            << std::left << std::setw(26) << "language model" << std::right << std::setw(6)
            << "block" << std::setw(7) << "vocab" << std::setw(6) << "dim" << std::setw(6)
            << "depth" << std::setw(6) << "heads" << std::setw(14) << "parameters"
            << "\n";
  for (const auto& m : models) {
    std::cout << std::left << std::setw(26) << m["name"].get<std::string>() << std::right
              << std::setw(6) << m["block"].get<int64_t>() << std::setw(7)
              << m["vocab"].get<int64_t>();
    for (const char* key : {"dim", "depth", "heads"}) {
      std::cout << std::setw(6) << m[key].get<int64_t>();
    }
    std::cout << std::setw(14) << human_number(m["parameters"].get<int64_t>()) << "\n";
  }
  std::cout << "char, char_gpu and words take the vocabulary of their data.\n";
}

void print_models(const nlohmann::json& models) {
  std::cout << std::left << std::setw(26) << "model" << std::right << std::setw(6) << "side"
            << std::setw(6) << "patch" << std::setw(6) << "dim" << std::setw(6) << "depth"
            << std::setw(6) << "heads" << std::setw(14) << "parameters" << std::setw(10) << "GMAC"
            << "\n";
  for (const auto& m : models) {
    std::cout << std::left << std::setw(26) << m["name"].get<std::string>() << std::right;
    for (const char* key : {"image_size", "patch", "dim", "depth", "heads"}) {
      std::cout << std::setw(6) << m[key].get<int64_t>();
    }
    std::cout << std::setw(14) << human_number(m["parameters"].get<int64_t>()) << std::setw(10)
              << std::fixed << std::setprecision(3) << m["gmac"].get<double>() << "\n";
  }
}

void print_gpus(const nlohmann::json& info) {
  const auto& gpus = info["gpus"];
  if (!info["build"]["cuda"].get<bool>()) {
    std::cout << "CUDA        not built in (cmake --preset cuda)\n";
  } else if (gpus.empty()) {
    std::cout << "CUDA        built in; no device is visible to torch\n";
  }
  for (const auto& gpu : gpus) {
    std::cout << std::left << std::setw(12) << gpu["device"].get<std::string>() << std::right
              << gpu["name"].get<std::string>() << ", compute capability "
              << gpu["compute_capability"].get<std::string>() << ", "
              << human_bytes(gpu["memory_bytes"].get<int64_t>()) << "\n"
              << "  TSSA      " << gpu["tssa"].get<std::string>() << "\n";
  }
}

void print_info(const nlohmann::json& info) {
  const auto words = [](const nlohmann::json& list) {
    return join(list.get<std::vector<std::string>>(), ", ");
  };
  const auto& build = info["build"];
  const auto& machine = info["machine"];
  const auto& paths = info["paths"];
  const auto text = [](const nlohmann::json& value) { return value.get<std::string>(); };
  std::cout << "tost " << text(build["version"]) << ", torch " << text(build["torch"]) << ", g++ "
            << text(build["compiler"]) << "\n"
            << "CPU         " << text(machine["cpu"]) << " (" << words(machine["features"]) << ")\n"
            << "threads     " << machine["threads"] << "\n"
            << "TSSA        " << text(paths["tssa_isa"]) << " of " << words(paths["isas"])
            << " (force one with TOST_ISA)\n"
            << "  float32   " << text(paths["tssa_float32"]) << "\n"
            << "  bfloat16  " << text(paths["tssa_bfloat16"]) << "\n"
            << "  float64   " << text(paths["tssa_float64"]) << "\n"
            << "products    float32 by " << text(paths["products"]["float32"]) << ", bfloat16 by "
            << text(paths["products"]["bfloat16"]) << ", int8 by "
            << text(paths["products"]["int8"]) << "\n"
            << "allocator   " << text(paths["allocator"])
            << " (TOST_ALLOCATOR=system for torch's own)\n";
  print_gpus(info);
  std::cout << "mixers      " << words(paths["mixers"]) << "\n"
            << "  causal    " << words(paths["causal_mixers"]) << "\n"
            << "models      `tost info --models` lists "
            << vision_preset_names().size() + language_preset_names().size() +
                   recall_preset_names().size() + sequence_preset_names().size()
            << "\n";
}

void run_info(const InfoOptions& options) {
  set_threads(options.run.threads);
  nlohmann::json info = {{"build", describe_build()},
                         {"machine", describe_machine()},
                         {"gpus", describe_gpus()},
                         {"paths", describe_paths()}};
  if (options.models) {
    info["models"] = nlohmann::json::array();
    for (const std::string& name : vision_preset_names())
      info["models"].push_back(describe_model(name));
    info["language_models"] = nlohmann::json::array();
    std::vector<std::string> language = language_preset_names();
    for (const std::string& name : recall_preset_names()) language.push_back(name);
    for (const std::string& name : language)
      info["language_models"].push_back(describe_language_model(name));
    info["sequence_models"] = nlohmann::json::array();
    for (const std::string& name : sequence_preset_names())
      info["sequence_models"].push_back(describe_sequence_model(name));
  }
  if (options.run.json) return print_json(info);
  if (options.models) {
    print_models(info["models"]);
    print_language_models(info["language_models"]);
    return print_sequence_models(info["sequence_models"]);
  }
  print_info(info);
}

}  // namespace

void add_info_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "What was built, what this CPU offers, which paths run");
  auto options = std::make_shared<InfoOptions>();
  add_run_options(*command, options->run);
  command->add_flag("--models", options->models, "List the models with their sizes");
  add_example(*command, "  tost info --models");
  command->callback([options] { run_info(*options); });
}

}  // namespace tost
