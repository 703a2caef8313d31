// The full program, with torch and every command.
#include <algorithm>
#include <string_view>

#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/comm/group.h"
#include "tost/ops/caching_allocator.h"
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

}  // namespace
}  // namespace tost

extern "C" int tost_run_program(int argc, char** argv) {
  using namespace tost;
  install_caching_allocator();
  return run_program(argc, argv, {add_commands, at::set_num_threads, explain});
}
