// The full program, with torch and every command.
#include <algorithm>
#include <iostream>
#include <string_view>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/program.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/device.h"
#include "tost/torch.h"

namespace tost {
namespace {

void add_commands(CLI::App& app) {
#define TOST_ADD_COMMAND(name) add_##name##_command(app);
  TOST_COMMANDS(TOST_ADD_COMMAND)
#undef TOST_ADD_COMMAND
  note_data_names(app);
}

std::string explain(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return {};
  const std::string what = torch->what_without_backtrace();
  // Whether the exception is a failed allocation, or reports an impossible size.
  const bool memory =
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      std::ranges::any_of(
          std::initializer_list<std::string_view>{"DefaultCPUAllocator",
                                                  "size calculation overflowed",
                                                  "integer multiplication overflow"},
          [&](std::string_view words) { return what.find(words) != std::string::npos; });
  return memory ? kNoMemory : "internal error, please report it: " + what;
}

nlohmann::json describe_gpus() {
  nlohmann::json gpus = nlohmann::json::array();
  for (int64_t i = 0; i < gpu_count(); ++i) {
    if (const auto gpu = gpu_facts(i))
      gpus.push_back({{"device", cat("cuda:", i)},
                      {"name", gpu->name},
                      {"compute_capability", cat(gpu->major, ".", gpu->minor)},
                      {"multiprocessors", gpu->multiprocessors},
                      {"memory_bytes", gpu->memory_bytes},
                      {"l2_bytes", gpu->l2_bytes}});
  }
  return gpus;
}

void print_presets(const PresetTable& table, const nlohmann::json& models) {
  std::cout << format_text("%-26s", table.title.c_str());
  for (const PresetColumn& column : table.columns) {
    std::cout << format_text("%*s", column.width, column.title);
  }
  for (const auto& model : models) {
    std::cout << format_text("\n%-26s", model["name"].get<std::string>().c_str());
    for (const PresetColumn& column : table.columns) {
      const auto& value = model[column.key];
      const bool parameters = std::string_view(column.key) == "parameters";
      const auto text = value.is_number_float() ? format_text("%.3f", value.get<double>())
                        : parameters            ? human_number(value.get<int64_t>())
                                                : cat(value.get<int64_t>());
      std::cout << format_text("%*s", column.width, text.c_str());
    }
  }
  std::cout << "\n" << table.note << (table.note.empty() ? "" : "\n");
}

void add_what_torch_knows(const InfoCommand& command, nlohmann::json& info) {
  info["build"]["torch_onednn"] = at::hasMKLDNN();
  info["build"]["torch_mkl"] = at::hasMKL();
  info["gpus"] = describe_gpus();
  if (!command.models) return;
  for (const Kind& kind : kinds()) {
    auto& list = info[kind.table.key] = nlohmann::json::array();
    for (const std::string& name : kind.presets()) list.push_back(kind.table.describe(name));
    if (command.run.json) continue;
    if (&kind != &kinds().front()) std::cout << "\n";
    print_presets(kind.table, list);
  }
}

}  // namespace

void add_info_command(CLI::App& app) {
  add_info_command(app, add_what_torch_knows);
}

}  // namespace tost

extern "C" int tost_run_program(int argc, char** argv) {
  using namespace tost;
  install_caching_allocator();
  return run_program(argc, argv, {add_commands, at::set_num_threads, explain});
}
