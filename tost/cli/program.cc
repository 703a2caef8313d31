#include "tost/cli/program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/cli/options.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

ProgramParts parts;
std::atomic<bool> stop_requested{false};
int exit_code = 0;

extern "C" void on_stop_signal(int signal) {
  // Restores the default action of signals, so that a second signal ends the program at once.
  if (stop_requested.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

// Handles the loss of the terminal, whose signal may come several times.
extern "C" void on_hang_up(int) {
  stop_requested = true;
}

// The innermost parsed subcommand, for messages such as "see tost X --help".
const CLI::App& deepest_command(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) return deepest_command(*command);
  return app;
}

std::string command_line_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? "tost" : command_line_name(*parent) + " " + command.get_name();
}

// Explains unexpected arguments by the names of the expected ones, which CLI11 does not do.
std::string explain_extras(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras.front();
  if (!starts_with(word, "-")) {
    std::vector<std::string> names;
    for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
    if (names.empty()) return cat("unexpected argument '", word, "'.");
    return cat("unknown command '", word, "'.", did_you_mean(word, names),
               " Commands: ", join(names, ", "), ".");
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string flag = word.substr(0, word.find('='));
  return cat("unknown flag '", flag, "'.", did_you_mean(flag, flags));
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const CLI::App& command = deepest_command(app);
  const bool extras = error.get_name() == "ExtrasError";
  const bool no_command = error.get_name() == "RequiredError" &&
                          !command.get_subcommands({}).empty() && command.remaining().empty();
  if (no_command && command.get_parent() == nullptr) {
    std::cerr << app.help();
    return kExitUsage;
  }
  std::string message =
      extras || !command.remaining().empty() ? explain_extras(app, command) : error.what();
  if (!message.empty() && message.back() != '.' && message.back() != '?') message += '.';
  const std::string name = command_line_name(command);
  std::cerr << name << ": " << message << " See `" << name << " --help`.\n";
  return kExitUsage;
}

void build_commands(CLI::App& app) {
  app.set_version_flag("--version", "tost " TOST_VERSION);
  app.require_subcommand(1);
  app.allow_windows_style_options(false);  // where a path may begin with /
  app.get_formatter()->column_width(34);
  parts.add_commands(app);
  check_flag_values(app);
}

// Whether an exception is due to exhausted memory or an impossible size.
bool out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

// A message for exceptions of other libraries, which distinguishes errors of the system from bugs.
std::string foreign_sentence(const std::exception& error) {
  if (auto sentence = parts.explain(error); !sentence.empty()) return sentence;
  if (out_of_memory(error)) return kNoMemory;
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return cat("cannot use '", file->path1().string(), "': ", system_reason(file->code().value()),
               ".");
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return cat("the system refuses: ", system_reason(system->code().value()), ".");
  }
  return cat("internal error, please report it: ", error.what());
}

int guarded(const CLI::App& app, const std::exception_ptr& failure) {
  const std::string name = command_line_name(deepest_command(app));
  try {
    std::rethrow_exception(failure);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  } catch (const NeedsFullProgram&) {
    throw;
  } catch (const ReportedElsewhere& error) {
    return error.kind() == ErrorKind::kUsage ? kExitUsage : kExitData;
  } catch (const Error& error) {
    std::cerr << name << ": " << error.what() << "\n";
    return error.kind() == ErrorKind::kUsage ? kExitUsage : kExitData;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << foreign_sentence(error) << "\n";
  }
  return kExitData;
}

// Whether stdout is a pipe whose reader has closed it.
bool output_closed() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// Returns the exit code of a command that has printed its output. If the reader has closed the pipe
// (`tost ... | head`), raises SIGPIPE only now, after the command's work.
int after_output(int code) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (output_closed()) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  std::cerr << "tost: the output cannot be written; is the disk full?\n";
  return kExitData;
}

}  // namespace

int run_program(int argc, char** argv, const ProgramParts& of_program) {
  parts = of_program;
  CLI::App app{
      "tost: Token Statistics Transformers, trained, scored and used from the command line.",
      "tost"};
  try {
    // Ignores SIGPIPE until after_output(), so that a closed pipe does not end the work.
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    // Makes malloc return large freed blocks to the system at once.
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    build_commands(app);
    app.parse(argc, argv);
    return after_output(exit_code);
  } catch (...) {
    const int code = guarded(app, std::current_exception());
    return code == 0 ? after_output(code) : code;  // 0: help, the version
  }
}

void print_json(const nlohmann::json& object) {
  std::cout << json_text(object, 2) << std::endl;
}

void set_threads(int64_t threads) {
  check_threads(threads);
  if (threads > 0) parts.set_threads(static_cast<int>(threads));
}

const std::atomic<bool>* stop_flag() {
  static const bool installed = [] {
    std::signal(SIGINT, on_stop_signal);
    std::signal(SIGTERM, on_stop_signal);
    const auto before = std::signal(SIGHUP, on_hang_up);
    if (before == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // as it is under nohup
    return true;
  }();
  (void)installed;
  return &stop_requested;
}

void set_exit_code(int code) {
  exit_code = code;
}

void say_interrupted(const char* what) {
  std::cerr << what << "\n";
  exit_code = kExitInterrupted;
}

}  // namespace tost
