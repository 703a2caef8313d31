#include "tost/cli/bench_output.h"

#include <torch/version.h>

#include <ctime>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/cli/build_info.h"
#include "tost/cli/options.h"
#include "tost/kernels/isa.h"

namespace tost {
namespace {

constexpr const char* kFormats[] = {"md", "json"};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string format_of(const std::string& file, const std::string& otherwise) {
  for (const char* format : kFormats) {
    if (ends_with(file, cat(".", format))) return format;
  }
  return otherwise;
}

}  // namespace

BenchOrigin bench_origin() {
  return {cpu_name(),
          join(cpu_features(), " "),
          kernels::current_isa(),
          build_version(),
          build_commit(),
          build_type(),
          __VERSION__,
          TORCH_VERSION,
          utc_now()};
}

void add_output_options(CLI::App& command, BenchOutput& output) {
  add_value(command, "--format", output.format, "md or json");
  command.add_flag("--json", output.json, "The same as --format json");
  command
      .add_option("--output", output.files,
                  "Write the rows to these files; .md and .json say the format")
      ->delimiter(',');
}

void check_output(BenchOutput& output) {
  for (const auto& file : output.files) check_output_file("output", file);
  if (output.json) output.format = "json";
  for (const char* format : kFormats) {
    if (output.format == format) return;
  }
  fail_usage("--format is '", output.format, "'; it must be md or json.");
}

void write_bench_files(const BenchOutput& output, const BenchFormatter& formatted) {
  for (const auto& file : output.files) {
    write_file_atomic(file, formatted(format_of(file, output.format)));
  }
}

}  // namespace tost
