// The program without torch, which starts at once and runs the models of the small engine. The full
// program does all other work.
#include "tost/cli/generate.h"
#include "tost/cli/program.h"
#include "tost/engine/model_files.h"
#include "tost/engine/threads.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

OpenedText open_with_engine(const TextChoice& o) {
  if (o.device != "cpu" || !o.tokenizer.empty()) throw NeedsFullProgram();
  const auto file = find_intact_model_file(o.checkpoint, o.ema ? Weights::kEma : Weights::kRaw);
  if (!runs_in_engine(file)) throw NeedsFullProgram();
  auto opened = open_engine_language(file, o.precision);
  needed_tokenizer(opened.info, "it cannot write text");
  return {std::move(opened.model), std::move(opened.info), file.string(), nullptr};
}

void add_commands(CLI::App& app) {
  add_generate_command(app, open_with_engine);
}

}  // namespace
}  // namespace tost

// Returns the exit code, or -1 if the full program must run instead.
extern "C" int tost_run_small_program(int argc, char** argv) {
  using namespace tost;
  const auto explain = [](const std::exception&) { return std::string(); };
  try {
    return run_program(argc, argv, {add_commands, set_engine_threads, explain});
  } catch (const NeedsFullProgram&) {
    return -1;
  }
}
