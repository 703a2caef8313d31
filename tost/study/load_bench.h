// Time to load a model file, compared with the time to read its bytes in the same process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tost {

struct LoadBenchOptions {
  std::string model = "gpt_base";  // preset of a language model; weights drawn at random
  int64_t depth = 17;  // its blocks; with gpt_base 160 million parameters; 0: the preset's
  int64_t repeat = 7;
  std::filesystem::path folder = {};  // for the files; empty: the system's temporary folder
};

// Medians over the repetitions, in which reading and loading of every format take turns.
struct LoadBenchRow {
  std::string format;  // safetensors, pth
  int64_t parameters = 0, bytes = 0;
  double read_ms = 0;  // read(2) of the whole file, warm, into memory that is new as a model's is
  double load_ms = 0;  // load_language_file()
};

// Writes the model once in every format, float32, and removes the files again. Throws usage Errors
// for bad options, a data Error where what is loaded is not what was written.
std::vector<LoadBenchRow> run_load_bench(const LoadBenchOptions& options);

}  // namespace tost
