// tost info: prints the build, the CPU, the selected code paths and the available models.
#include <torch/version.h>

#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/model_files.h"
#include "tost/engine/packed_linear.h"
#include "tost/kernels/isa.h"
#include "tost/kinds/kinds.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/token_mixer.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/device.h"
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
                    {"l2_bytes", gpu->l2_bytes}});
  }
  return gpus;
}

// The method by which the inference engine computes each kind of product.
nlohmann::json describe_products() {
  return {{"float32", product_method(Packing::kFloat32)},
          {"bfloat16", product_method(Packing::kBfloat16)},
          {"int8", product_method(Packing::kInt8)}};
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

void print_presets(const PresetTable& table, const nlohmann::json& models) {
  std::cout << std::left << std::setw(26) << table.title << std::right;
  for (const PresetColumn& column : table.columns) {
    std::cout << std::setw(column.width) << column.title;
  }
  std::cout << "\n";
  for (const auto& model : models) {
    std::cout << std::left << std::setw(26) << model["name"].get<std::string>() << std::right;
    for (const PresetColumn& column : table.columns) {
      const auto& value = model[column.key];
      const std::string key = column.key;
      const auto text = value.is_number_float() ? format_text("%.3f", value.get<double>())
                        : key == "parameters"   ? human_number(value.get<int64_t>())
                                                : cat(value.get<int64_t>());
      std::cout << std::setw(column.width) << text;
    }
    std::cout << "\n";
  }
  if (!table.note.empty()) std::cout << table.note << "\n";
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
              << human_bytes(gpu["memory_bytes"].get<int64_t>()) << "\n";
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
            << "models      `tost info --models` lists " << PresetNames::all().size()
            << " presets, `tost models` the trained ones\n";
}

void run_info(const InfoOptions& options) {
  set_threads(options.run.threads);
  nlohmann::json info = {{"build", describe_build()},
                         {"machine", describe_machine()},
                         {"gpus", describe_gpus()},
                         {"paths", describe_paths()}};
  if (options.models) {
    for (const Kind& kind : kinds()) {
      auto& list = info[kind.table.key] = nlohmann::json::array();
      for (const std::string& name : kind.presets()) list.push_back(kind.table.describe(name));
    }
  }
  if (options.run.json) return print_json(info);
  if (options.models) {
    for (const Kind& kind : kinds()) {
      if (&kind != &kinds().front()) std::cout << "\n";
      print_presets(kind.table, info[kind.table.key]);
    }
    return;
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
