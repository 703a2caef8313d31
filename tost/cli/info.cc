// tost info: prints the build, the CPU, the selected code paths and the available models.
#include <iomanip>
#include <iostream>

#include "tost/base/machine.h"
#include "tost/base/text.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/mixer_names.h"
#include "tost/engine/packed_linear.h"
#include "tost/engine/threads.h"
#include "tost/kernels/block_cache.h"
#include "tost/kernels/isa.h"

namespace tost {
namespace {

using nlohmann::json;

// What is known without torch. The products are those of the inference engine.
json describe_program() {
  return {
      {"build",
       {{"version", TOST_VERSION},
        {"compiler", __VERSION__},
        {"torch", TOST_TORCH_VERSION},
        {"cuda", TOST_CUDA != 0}}},
      {"machine",
       {{"cpu", cpu_name()}, {"features", cpu_features()}, {"threads", engine_threads()}}},
      {"gpus", json::array()},
      {"paths",
       {{"tssa_isa", kernels::current_isa()},
        {"isas", kernels::supported_isas()},
        {"tssa_float32", "fused kernels"},
        {"tssa_bfloat16", "fused kernels, float32 arithmetic"},
        {"tssa_float64", "plain definition"},
        {"products",
         {{"float32", product_method(Packing::kFloat32)},
          {"bfloat16", product_method(Packing::kBfloat16)},
          {"int8", product_method(Packing::kInt8)}}},
        {"allocator", caching_allocator_enabled() ? "caching" : "system"},
        {"mixers", mixer_names()},
        {"causal_mixers", causal_mixer_names()}}},
  };
}

void print_gpus(const json& info) {
  const auto& gpus = info["gpus"];
  if (gpus.empty()) {
    std::cout << "CUDA        "
              << (info["build"]["cuda"] == true ? "built in; no device is visible to torch\n"
                                                : "not built in (cmake --preset cuda)\n");
  }
  for (const auto& gpu : gpus) {
    std::cout << std::left << std::setw(12) << gpu["device"].get<std::string>() << std::right
              << gpu["name"].get<std::string>() << ", compute capability "
              << gpu["compute_capability"].get<std::string>() << ", "
              << human_bytes(gpu["memory_bytes"].get<int64_t>()) << "\n";
  }
}

void print_info(const json& info) {
  const auto words = [](const json& list) {
    return join(list.get<std::vector<std::string>>(), ", ");
  };
  const auto text = [](const json& value) { return value.get<std::string>(); };
  const json &build = info["build"], &machine = info["machine"], &paths = info["paths"];
  std::cout << "tost " << text(build["version"])
            << (build["torch"] == "" ? "" : ", torch " + text(build["torch"])) << ", g++ "
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
  std::cout
      << "mixers      " << words(paths["mixers"]) << "\n"
      << "  causal    " << words(paths["causal_mixers"]) << "\n"
      << "models      `tost info --models` lists the presets, `tost models` the trained ones\n";
}

void run_info(const InfoCommand& command, AskTorch ask) {
  set_threads(command.run.threads);
  json info = describe_program();
  ask(command, info);
  if (command.run.json) return print_json(info);
  if (!command.models) print_info(info);
}

}  // namespace

void add_info_command(CLI::App& app, AskTorch ask) {
  CLI::App* command =
      app.add_subcommand("info", "What was built, what this CPU offers, which paths run");
  auto options = std::make_shared<InfoCommand>();
  add_run_options(*command, options->run);
  command->add_flag("--models", options->models, "List the models with their sizes");
  add_example(*command, "  tost info --models");
  command->callback([options, ask] { run_info(*options, ask); });
}

}  // namespace tost
