// How fast batches are made for training, compared with a plain decode of the same files and with
// the rate at which a training step consumes them, in the same process.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/bench/bench_table.h"
#include "tost/nn/precision.h"

namespace tost {

struct DataBenchOptions {
  // jpeg, png: photographs in a folder, drawn here. raw: pictures of 32 x 32 held in memory, as idx
  // and CIFAR files are. text: crops of a text of tokens in memory.
  std::vector<std::string> sources{"jpeg", "png", "raw", "text"};
  // Of pictures: the augmentation of a recipe of `tost train`, or eval, evaluation's transform.
  std::vector<std::string> recipes{"imagenet", "finetune", "eval"};
  std::vector<int64_t> workers{1, 2};          // threads that make batches
  int64_t pictures = 128;                      // of a pass, at least a batch for every worker
  int64_t width = 500, height = 375;           // of photographs
  int64_t image_size = 224;                    // of the network's input from photographs
  int64_t batch = 16;                          // of pictures and of text
  int64_t repeat = 5;                          // passes; median and quartiles are reported
  bool step = true;                            // measure the training steps
  Precision precision = Precision::kBf16;      // of a step
  std::string model = "tost_cab_tiny_12_p16";  // that photographs are for
  std::string raw_model = "tost_nano_p4";
  std::string text_model = "tost_gpt_char";
  std::filesystem::path folder = {};        // for the files; empty: the system's temporary folder
  const std::atomic<bool>* stop = nullptr;  // looked at between rows; null: never
};

// The one precision of the steps. Throws a usage Error that names --precision.
Precision step_precision(const std::string& text);

struct DataBenchRow {
  std::string source, recipe, unit;  // images/s or tokens/s, of all rates
  int64_t size = 0;                  // side of the input, or tokens of a crop
  int64_t batch = 0, workers = 0;
  std::vector<double> rates = {};  // of each pass
  double low = 0, median = 0, high = 0;
  double processor_us = 0;  // processor time for a picture or token, all threads together
  double plain = 0;         // decoding the same files whole by as many threads; 0: no such thing
  // Largest mean difference of a picture in grey levels that decoding reduced makes; 0: none.
  double deviation = 0;
  std::string step_model = {};  // "": not measured
  Precision step_precision = Precision::kFp32;
  int64_t step_threads = 0;
  double step = 0;  // what training steps consume, loading nothing
};

// Every combination; `report` is called with each row as it is done. Throws usage Errors for bad
// options, a data Error where a picture or batch is not what a plain decode gives: nothing wrong is
// timed. Steps use the threads torch is set to.
std::vector<DataBenchRow> run_data_bench(const DataBenchOptions& options,
                                         const std::function<void(const DataBenchRow&)>& report);

// Rows of `tost bench data` as Markdown, CSV and JSON.

// {"rows": [...]}, each row flat. Numbers that were not measured are null.
nlohmann::json data_bench_json(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);
std::string data_bench_csv(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);
// "of plain": the rate divided by that of plain decoding. "times the step": the rate divided by
// what training steps consume; above 1 loading keeps up.
std::string data_bench_markdown(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin);

}  // namespace tost
