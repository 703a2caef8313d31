// Functions for all commands: exit codes, JSON output, compute threads, interruption.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace tost {

inline constexpr int kExitData = 1;           // bad data, failed run
inline constexpr int kExitUsage = 2;          // bad flags
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, SIGTERM or SIGHUP, after saving

// Parses the arguments, runs the command and returns the exit code. Prints an Error as one sentence
// on stderr.
int run_program(int argc, char** argv);

// Prints one object on stdout, for --json. Numbers that are not finite become null.
void print_json(const nlohmann::json& object);

// Sets the number of threads of torch and of the kernels; 0 leaves the default (all cores).
void set_threads(int64_t threads);

// From the first call on, Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP) set the flag
// instead of ending the program; a second Ctrl-C or SIGTERM ends it.
const std::atomic<bool>* stop_flag();

// Sets the exit code of a command that was interrupted without an exception.
void set_exit_code(int code);
// Prints on stderr that the user stopped the command, and sets its exit code.
void say_interrupted(const char* what = "interrupted");

// The version of the sources and the compiler of this program.
const char* build_version();
const char* build_commit();  // of the source, shortened; ends with "+" if files were changed
const char* build_type();    // such as Release

}  // namespace tost
