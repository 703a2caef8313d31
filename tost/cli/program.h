// Functions that all commands share: exit codes, JSON output, compute threads, interruption.
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

// The parts in which the full program, with torch, differs from the small one.
struct ProgramParts {
  void (*add_commands)(CLI::App& app);
  void (*set_threads)(int threads);
  // Returns a message for an exception of another library; empty if the exception is unknown.
  std::string (*explain)(const std::exception& error);
};

// Thrown by the small program for a task that only the full program can do.
struct NeedsFullProgram {};

// Parses the arguments, runs the command and returns the exit code. Prints an Error as one sentence
// on stderr. Lets NeedsFullProgram pass.
int run_program(int argc, char** argv, const ProgramParts& parts);

// Prints one object on stdout, for --json. Numbers that are not finite become null.
void print_json(const nlohmann::json& object);

// Sets the number of compute threads; 0 means all cores.
void set_threads(int64_t threads);

// The flag that Ctrl-C, SIGTERM and SIGHUP set, after the first call, instead of ending the
// program. A second Ctrl-C or SIGTERM ends the program.
const std::atomic<bool>* stop_flag();

// The exit code of a command that was interrupted without an Error.
void set_exit_code(int code);
// Prints on stderr that the user stopped the command, and sets its exit code.
void say_interrupted(const char* what = "interrupted");

}  // namespace tost
