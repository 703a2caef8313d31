// Whole networks in every combination of batch, length, threads and precision, with the engine and
// without: time, spread, rate and memory, and for comparison the network's matrix products alone
// and the time to read its weights once, in the same process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tost/kernels/work_times.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

struct ModelBenchOptions {
  std::vector<std::string> models{"tost_cab_small_12_p16"};  // presets or files
  std::vector<std::string> mixers;                           // of presets; empty: their own
  std::vector<std::string> tests;                            // empty: all that a model has
  std::vector<int64_t> batches{1};
  std::vector<int64_t> image_sizes;  // empty: the model's
  std::vector<int64_t> tokens;       // empty: a length of the model's
  std::vector<int64_t> threads;      // empty: torch's setting
  Precisions precisions{Precision::kFp32};
  std::vector<bool> engines{true, false};
  std::string device = "cpu";  // as device_from_name() takes it
  int64_t steps = 16;          // tokens of a repetition of decode
  int64_t warmup = 2, repeat = 10;
  bool floors = true;                       // measure products and memory
  bool work = false;                        // measure where the time goes; of the engine alone
  const std::atomic<bool>* stop = nullptr;  // looked at between configurations; null: never
};

struct ModelBenchRow {
  std::string model, kind, mixer, test;
  Precision precision = Precision::kFp32;
  std::string device = "cpu";  // or the GPU's name
  int64_t batch = 0, size = 0, threads = 0;
  bool engine = false;
  std::string missing;  // why nothing was measured; "": it was
  double error = 0;     // largest deviation from the plain fp32 logits, relative to the largest
  std::vector<double> times_ms;                   // of a repetition; of decode, a step of it
  double low_ms = 0, median_ms = 0, high_ms = 0;  // quartiles
  double rate = 0;                                // of the median
  std::string unit;                               // pictures, tokens or sequences a second
  // Highest resident memory of the process while this configuration was prepared and run, model and
  // libraries included; 0 where Linux does not tell. On a GPU: of its tensors.
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  double products_ms = 0, products_gflop = 0;  // ms 0: no such products, or not measured
  double read_ms = 0;                          // weight_bytes once, 0: not measured
  // Where the time of a thread went, of further repetitions that took work_total_ms on average;
  // by kernels::Work. 0: not measured. What is missing to the total is the rest: copies, waiting.
  std::array<double, kernels::kWorkKinds> work_ms{};
  double work_total_ms = 0;

  double work_rest_ms() const {
    return std::accumulate(work_ms.begin(), work_ms.end(), work_total_ms, std::minus<>());
  }
};

// Usage Errors for empty lists, unknown names and numbers that are out of range, and for the engine
// and its precisions on a GPU.
void check_model_bench(const ModelBenchOptions& options);

// Every combination; `report` is called with each row as it is done. A combination that a model
// does not have is a row with its reason. Throws usage Errors for bad options, a data Error where
// logits are further from the plain path's than the precision allows: nothing wrong is timed.
std::vector<ModelBenchRow> run_model_bench(const ModelBenchOptions& options,
                                           const std::function<void(const ModelBenchRow&)>& report);

// Writes the weights of the one model of `options`, made for its lengths, to a model file.
void save_bench_weights(const ModelBenchOptions& options, const std::string& file);

// Writes "input", "plain" (fp32 logits) and the logits of every precision and path ("fp32.plain",
// "bf16.engine") to a safetensors file. `options` must have one model, test, batch and size.
void save_bench_logits(const ModelBenchOptions& options, const std::string& file);

}  // namespace tost
