// Shared by all commands: exit codes, JSON output, compute threads, interruption.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

namespace tost {

inline constexpr int kExitData = 1;   // bad data, failed run
inline constexpr int kExitUsage = 2;  // bad flags
inline constexpr char kNoMemory[] = "not enough memory; try a smaller batch or model.";
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, SIGTERM or SIGHUP, after saving

// What the full program, which has torch, and the small one put into their frame.
struct ProgramParts {
  void (*add_commands)(CLI::App& app);
  void (*set_threads)(int threads);
  // A sentence for an exception of another library; empty where it knows none.
  std::string (*explain)(const std::exception& error);
};

// Thrown by a command of the small program for what only the full one can do.
struct NeedsFullProgram {};

// Parses the arguments, runs the command and returns the exit code. Errors are one sentence on
// stderr. Lets NeedsFullProgram pass.
int run_program(int argc, char** argv, const ProgramParts& parts);

// One object on stdout, for --json. Numbers that are not finite become null.
void print_json(const nlohmann::json& object);

// Compute threads; 0 leaves the default (all cores).
void set_threads(int64_t threads);

// From the first call on, Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP) set the flag
// instead of ending the program; a second Ctrl-C or SIGTERM ends it.
const std::atomic<bool>* stop_flag();

// A command's exit code when it is neither 0 nor thrown: set by commands that were interrupted.
void set_exit_code(int code);
// Prints on stderr that the user stopped the command, and sets its exit code.
void say_interrupted(const char* what = "interrupted");

// The sources and compiler of this program.
const char* build_version();
const char* build_commit();  // of the source, shortened; ends with "+" if files were changed
const char* build_type();    // such as Release

}  // namespace tost
