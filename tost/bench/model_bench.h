// Measures time and memory of whole networks for every combination of batch, length, threads,
// precision and engine. The same process times the network's matrix products and one read of its
// weights.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tost/base/machine.h"
#include "tost/bench/bench_model.h"
#include "tost/bench/measure.h"
#include "tost/kernels/work_times.h"

namespace tost {

// Where a model runs: the CPU, unless a program knows other devices.
class BenchDevice {
 public:
  explicit BenchDevice(std::string name = "cpu") : name(std::move(name)) {}
  virtual ~BenchDevice() = default;

  bool is_cpu() const { return name == "cpu"; }
  virtual void synchronize() const {}
  virtual void restart_peak() { counted_ = restart_high_water(); }
  virtual int64_t peak_bytes() const { return counted_ ? high_water_bytes() : 0; }  // 0: unknown
  virtual double read_ms(int64_t bytes) const { return memory_read_ms(bytes); }

  const std::string name;  // or of the GPU

 private:
  bool counted_ = false;
};

// What a program runs the models with.
struct BenchBackend {
  // Opens a preset or a file. Gives presets the same random weights at every call.
  std::unique_ptr<BenchModel> (*open)(const BenchModelSource& source) = nullptr;
  std::unique_ptr<BenchDevice> (*device)(const std::string& name) = nullptr;
  void (*set_threads)(int threads) = nullptr;
  // Whether models have plain modules, whose logits are the reference; else those of the engine.
  bool modules = false;
  // Returns logits on the CPU in float32.
  Array (*floats)(const Array& logits) = [](const Array& logits) { return logits; };
  // Times matrix products; null: they are not measured.
  ProductFloor (*products)(const std::vector<Product>& products, Precision precision,
                           int64_t repeat, const std::string& device) = nullptr;
};

struct ModelBenchOptions {
  BenchBackend backend;
  std::vector<std::string> models{"tost_cab_small_12_p16"};  // presets or files
  std::vector<std::string> mixers;                           // of presets; empty: the preset's
  std::vector<std::string> tests;                            // empty: all that a model has
  std::vector<int64_t> batches{1};
  std::vector<int64_t> image_sizes;  // empty: the model's
  std::vector<int64_t> tokens;       // empty: a length of the model's
  std::vector<int64_t> threads;      // empty: as many as are set
  Precisions precisions{Precision::kFp32};
  std::vector<bool> engines{true, false};
  std::string device = "cpu";  // of BenchBackend::device
  int64_t steps = 16;          // tokens of a repetition of decode
  int64_t warmup = 2, repeat = 10;
  bool floors = true;                       // measure products and memory
  bool work = false;                        // measure the time by kind of work; only of the engine
  const std::atomic<bool>* stop = nullptr;  // checked between configurations; null: never
};

struct ModelBenchRow {
  std::string model, kind, mixer, test;
  Precision precision = Precision::kFp32;
  std::string device = "cpu";  // or the GPU's name
  int64_t batch = 0, size = 0, threads = 0;
  bool engine = false;
  std::string missing;  // why nothing was measured; "": it was
  double error = 0;     // largest deviation from the reference in fp32, relative to the largest
  std::vector<double> times_ms;                   // of a repetition; of decode, a step of it
  double low_ms = 0, median_ms = 0, high_ms = 0;  // quartiles
  double rate = 0;                                // of the median
  std::string unit;                               // pictures, tokens or sequences a second
  // Highest resident memory of the process during the measurement; 0 if unknown. On a GPU, the
  // highest memory of tensors.
  int64_t peak_bytes = 0;
  int64_t weight_bytes = 0;
  double products_ms = 0, products_gflop = 0;  // ms 0: no such products, or not measured
  double read_ms = 0;                          // weight_bytes once, 0: not measured
  // The milliseconds that a thread spends on each kernels::Work, if measured. work_total_ms also
  // contains copies and waiting.
  std::array<double, kernels::kWorkKinds> work_ms{};
  double work_total_ms = 0;

  double work_rest_ms() const {
    return std::accumulate(work_ms.begin(), work_ms.end(), work_total_ms, std::minus<>());
  }
};

// Parses "128,256,4k,1M" to {128, 256, 4096, 1048576}; k and M are powers of 1024. Throws a usage
// Error for other texts and for lengths that are not in rising order.
std::vector<int64_t> parse_lengths(const std::string& text);

// Throws usage Errors for empty lists, unknown names and numbers out of range, and for the engine
// or its precisions on a GPU.
void check_model_bench(const ModelBenchOptions& options);

// Measures every combination, and calls `report` with each finished row. A combination that a model
// does not support gives a row with the reason. Throws usage Errors for bad options, and a data
// Error if logits deviate too much from the reference.
std::vector<ModelBenchRow> run_model_bench(const ModelBenchOptions& options,
                                           const std::function<void(const ModelBenchRow&)>& report);

// Writes the only model of `options` to a model file, with positions for the lengths of `options`.
void save_bench_weights(const ModelBenchOptions& options, const std::string& file);

// Reads the names of precisions, which a flag gave.
Precisions precisions_named(const char* flag, const std::vector<std::string>& names);

// Writes "input", "plain" (fp32 logits) and the logits of every precision and path ("fp32.plain",
// "bf16.engine") to a safetensors file. `options` must have one model, test, batch and size.
void save_bench_logits(const ModelBenchOptions& options, const std::string& file);

// ---- Rows as Markdown and JSON, and a comparison of two runs. ----

// The machine and the subject of a measurement, which every row in JSON contains.
struct BenchOrigin {
  std::string cpu, features, isa;  // features separated by blanks
  std::string version, commit, build, compiler, torch;
  std::string date;  // UTC, 2025-01-31T12:00:00Z
};

// The rows as JSON: {"rows": [...]} with flat objects. Numbers that were not measured are null.
nlohmann::json model_bench_json(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin);
// A table and the machine. "of floor" is the time of the matrix products divided by the total time;
// "of read" is the time of one read of the weights divided by the total time.
std::string model_bench_markdown(const std::vector<ModelBenchRow>& rows, const BenchOrigin& origin);

// A table with the share of each kind of work in the total time; "" if shares were not measured.
std::string model_work_markdown(const std::vector<ModelBenchRow>& rows);

struct BenchChange {
  std::string what;  // the configuration in words
  double before_ms = 0, after_ms = 0;
  double ratio = 0;     // before over after: above 1 is faster
  std::string verdict;  // "faster", "slower", or where the quartiles meet "no difference"
};

// Compares rows that both runs have, in the order of `after`. Throws a data Error naming `where`
// unless `before` is JSON of model_bench_json().
std::vector<BenchChange> compare_model_bench(const nlohmann::json& before,
                                             const nlohmann::json& after, const std::string& where);
std::string changes_markdown(const std::vector<BenchChange>& changes);

}  // namespace tost
