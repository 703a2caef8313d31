// Flags and files of measurements that come as tables.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tost/bench/bench_table.h"

namespace tost {

// Of this machine, this build, now.
BenchOrigin bench_origin();

struct BenchOutput {
  std::string format = "md";  // or json
  std::vector<std::string> files;
  bool json = false;  // the same as format json
};
// --format, --json, --output.
void add_output_options(CLI::App& command, BenchOutput& output);
// Throws a usage Error for another format, and those of check_output_file() for the files.
void check_output(BenchOutput& output);

using BenchFormatter = std::function<std::string(const std::string& format)>;
// Writes the files, each in the format its ending says where it is one, else in that of --format.
void write_bench_files(const BenchOutput& output, const BenchFormatter& formatted);

}  // namespace tost
