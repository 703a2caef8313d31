#include "tost/study/model_bench.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/bench/bench_model.h"
#include "tost/bench/product_floor.h"
#include "tost/engine/model_files.h"
#include "tost/kernels/block_cache.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/device.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

using torch::Tensor;

std::unique_ptr<BenchModel> open_file(const BenchModelSource& source) {
  if (!source.mixer.empty()) {
    fail_usage("'", source.name, "' is a trained model with the mixer it was trained with; leave ",
               "out --mixer, or give a preset.");
  }
  return kind_named(model_kind(source.name)).open_bench(source, true);
}

[[noreturn]] void fail_unknown(const std::string& name) {
  const std::string hint = did_you_mean(name, PresetNames::all());
  fail_usage("'", name, "' is neither a preset nor a file.",
             hint.empty() ? " `tost info --models` lists the presets." : hint);
}

// Gives presets random weights, the same at every call, such that every layer affects the logits:
// LayerScale is 1, biases are not 0, batch norms have the statistics of their inputs. Throws a
// usage Error for unknown names, and for a mixer that is set together with a file.
std::unique_ptr<BenchModel> open_bench_model(const BenchModelSource& source) {
  torch::manual_seed(0);
  for (const Kind& kind : kinds()) {
    const auto names = kind.presets();
    if (std::find(names.begin(), names.end(), source.name) == names.end()) continue;
    return kind.open_bench(source, false);
  }
  if (path_exists(source.name)) return open_file(source);
  fail_unknown(source.name);
}

struct Configuration {
  BenchModelSource source;
  BenchTask task;
  Precision precision;
  bool engine = false;
  int64_t threads = 0;
};

// Sets the number of torch's threads; the destructor restores the old number.
class ThreadsScope {
 public:
  explicit ThreadsScope(int64_t threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(int(threads));
  }
  ~ThreadsScope() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int before_;
};

void give_memory_back() {
  BlockCache::instance().empty();
  malloc_trim(0);
}

// Caches the input of the last task, and the logits of plain modules in fp32 for this input.
class Reference {
 public:
  struct Pair {
    Tensor input, logits;
  };

  const Pair& get(const Configuration& c) {
    const auto& t = c.task;
    const std::string key = cat(c.source.name, ' ', c.source.mixer, ' ', t.test, ' ', t.batch, ' ',
                                t.size, ' ', t.steps);
    if (key == key_) return pair_;
    const auto model = open_bench_model(c.source);
    pair_.input = model->draw_input(t);
    BenchTask here = t;  // the CPU's numbers are those of every device
    here.device = torch::kCPU;
    const BenchRunner runner =
        model->make_runner(here, pair_.input, Precision::kFp32, /*engine=*/false);
    runner.prepare();
    pair_.logits = runner.run().to(torch::kFloat).clone();
    key_ = key;
    return pair_;
  }

 private:
  std::string key_;
  Pair pair_;
};

std::string name_of_device(torch::Device device) {
  if (device.is_cpu()) return "cpu";
  const auto facts = gpu_facts(device.index());
  return facts ? facts->name : device.str();
}

ModelBenchRow row_of(const Configuration& c, const BenchModel& model) {
  ModelBenchRow row;
  row.model = c.source.name;
  row.kind = model.kind();
  row.unit = cat(model.unit(), "/s");
  row.device = name_of_device(c.task.device);
  row.mixer = model.mixer();
  row.test = c.task.test;
  row.precision = c.precision;
  row.batch = c.task.batch;
  row.size = c.task.size;
  row.threads = c.threads;
  row.engine = c.engine;
  return row;
}

Tensor checked_logits(const BenchRunner& runner, const Tensor& wanted, ModelBenchRow& row) {
  runner.prepare();
  const Tensor found = runner.run().cpu().to(torch::kFloat).clone();
  row.error = relative_error(found, wanted);
  const double allowed = facts_of(row.precision).logit_error;
  if (!(row.error <= allowed)) {
    fail_data("The logits of ", row.model, " in ", row.precision,
              row.engine ? " by the engine" : "", ", batch ", row.batch, ", deviate by ", row.error,
              " of the largest from the plain ones, more than ", allowed,
              "; nothing was measured. Please report this with the output of `tost info`.");
  }
  return found;
}

void fill_times(const ModelBenchOptions& options, const Configuration& c, const BenchRunner& runner,
                ModelBenchRow& row) {
  row.times_ms = time_rounds(options.warmup, options.repeat,
                             {{[&] { runner.run(); }, runner.prepare}}, ms_clock(c.task.device))[0];
  const bool decode = c.task.test == "decode";
  if (decode) {
    for (double& ms : row.times_ms) ms /= double(c.task.steps);
  }
  const Quartiles q = quartiles(row.times_ms);
  row.low_ms = q.low, row.median_ms = q.median, row.high_ms = q.high;
  const int64_t each = c.task.test == "prefill" ? c.task.size : 1;
  row.rate = 1e3 * double(c.task.batch * each) / row.median_ms;
}

// The remaining time includes the timers' work, some 0.1 us for each piece.
void fill_work(const ModelBenchOptions& options, const Configuration& c, const BenchRunner& runner,
               ModelBenchRow& row) {
  const int64_t calls = std::max<int64_t>(3, options.repeat / 2);
  const double each = double(calls) * (c.task.test == "decode" ? double(c.task.steps) : 1.0);
  for (int64_t i = 0; i < calls; ++i) {
    runner.prepare();
    const auto start = Clock::now();
    kernels::WorkTimes::start();
    runner.run();
    const auto seconds = kernels::WorkTimes::stop();
    row.work_total_ms += ms_since(start) / each;
    for (size_t k = 0; k < seconds.size(); ++k) {
      row.work_ms[k] += 1e3 * seconds[k] / double(c.threads) / each;
    }
  }
}

void fill_floors(const ModelBenchOptions& options, const std::vector<Product>& products,
                 torch::Device device, ModelBenchRow& row) {
  // Skips decoding, whose products have a few rows and are bound by reading the weights.
  if (row.test != "decode" && facts_of(row.precision).packing) {
    const auto floor =
        measure_products(products, row.precision, std::max<int64_t>(3, options.repeat / 2), device);
    row.products_ms = floor.ms, row.products_gflop = floor.gflop;
  }
  if (row.weight_bytes >= 8) row.read_ms = memory_read_ms(row.weight_bytes, device);
}

ModelBenchRow measure(const ModelBenchOptions& options, const Configuration& c,
                      Reference& reference) {
  const ThreadsScope threads(c.threads);
  ModelBenchRow row;
  std::vector<Product> products;
  {
    const auto [input, wanted] = reference.get(c);
    give_memory_back();
    const bool counted = restart_high_water();
    restart_device_peak(c.task.device);
    const auto model = open_bench_model(c.source);
    row = row_of(c, *model);
    products = model->products(c.task);
    BenchRunner runner;
    try {
      runner = model->make_runner(c.task, input, c.precision, c.engine);
      row.weight_bytes = runner.weight_bytes;
      checked_logits(runner, wanted, row);
      fill_times(options, c, runner, row);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      row.missing = error.what();
      return row;
    }
    if (options.work && c.engine) fill_work(options, c, runner, row);
    const bool here = c.task.device.is_cpu();
    if (!here) row.peak_bytes = device_peak_bytes(c.task.device);
    if (here && counted) row.peak_bytes = high_water_bytes();
  }
  give_memory_back();
  if (options.floors) fill_floors(options, products, c.task.device, row);
  give_memory_back();
  return row;
}

// Returns the tasks that are measured for one model.
std::vector<BenchTask> tasks_of(const ModelBenchOptions& o, const BenchModel& model) {
  std::vector<BenchTask> tasks;
  const bool pictures = std::string(model.unit()) == "images";
  const torch::Device device = device_from_name(o.device);
  auto sizes = pictures ? o.image_sizes : o.tokens;
  if (sizes.empty()) sizes = {model.default_size()};
  for (const std::string& test : model.tests()) {
    if (!o.tests.empty() && std::find(o.tests.begin(), o.tests.end(), test) == o.tests.end()) {
      continue;
    }
    for (const int64_t batch : o.batches) {
      for (const int64_t size : sizes) {
        tasks.push_back({test, batch, size, test == "decode" ? o.steps : 1, device});
      }
    }
  }
  return tasks;
}

// The largest number of tokens that the tasks of a language model need.
int64_t longest_text(const ModelBenchOptions& o) {
  return o.tokens.empty() ? 0 : *std::max_element(o.tokens.begin(), o.tokens.end()) + o.steps;
}

std::vector<Configuration> configurations(const ModelBenchOptions& o) {
  std::vector<Configuration> all;
  const auto mixers = o.mixers.empty() ? std::vector<std::string>{""} : o.mixers;
  const auto threads = o.threads.empty() ? std::vector<int64_t>{at::get_num_threads()} : o.threads;
  const int64_t longest = longest_text(o);
  for (const auto& name : o.models) {
    for (const auto& mixer : mixers) {
      const BenchModelSource source{name, mixer, longest};
      for (const auto& task : tasks_of(o, *open_bench_model(source))) {
        for (const int64_t count : threads) {
          for (const Precision precision : o.precisions) {
            for (const bool engine : o.engines) {
              all.push_back({source, task, precision, engine, count});
            }
          }
        }
      }
    }
  }
  if (all.empty()) fail_usage("None of the models has the test ", join(o.tests, " or "), ".");
  return all;
}

void check_device(const ModelBenchOptions& o) {
  const torch::Device device = device_from_name(o.device);
  if (device.is_cpu()) return;
  // Disables TF32, which would round the inputs of cuDNN's convolutions in fp32 to ten bits.
  at::globalContext().setAllowTF32CuDNN(false);
  const bool integers = std::any_of(o.precisions.begin(), o.precisions.end(),
                                    [](Precision p) { return !facts_of(p).modules; });
  const bool engine = std::find(o.engines.begin(), o.engines.end(), true) != o.engines.end();
  if (engine || integers || o.work) {
    fail_usage("The inference engine, ", list_of(integer_precisions()),
               " and --work are the CPU's; with --device ", o.device,
               " measure --engine off in fp32 and bf16.");
  }
}

}  // namespace

std::vector<int64_t> parse_lengths(const std::string& text) {
  constexpr int64_t kLongest = int64_t{1} << 30;
  std::vector<int64_t> lengths;
  const char *p = text.data(), *const end = p + text.size();
  while (true) {
    int64_t value = 0;
    const auto number = std::from_chars(p, end, value);
    p = number.ptr;
    int64_t unit = 1;
    if (p != end && (*p == 'k' || *p == 'K'))
      unit = 1024, ++p;
    else if (p != end && *p == 'M')
      unit = 1024 * 1024, ++p;
    const bool complete = number.ec == std::errc() && (p == end || *p == ',');
    if (!complete || value < 1 || value > kLongest / unit) {
      fail_usage("--tokens is '", text,
                 "'; write rising lengths up to 1024M, separated by commas, like 128,4k,1M.");
    }
    if (!lengths.empty() && value * unit <= lengths.back()) {
      fail_usage("--tokens has ", value * unit, " after ", lengths.back(),
                 "; write the lengths in rising order.");
    }
    lengths.push_back(value * unit);
    if (p == end) return lengths;
    ++p;
  }
}

void check_model_bench(const ModelBenchOptions& o) {
  if (o.models.empty()) fail_usage("--model is empty; give a preset or a file.");
  check_names("--test", o.tests, {"forward", "prefill", "decode"});
  check_device(o);
  check_range("--batch", o.batches, 1 << 16);
  check_range("--image-size", o.image_sizes, 1 << 14);
  check_range("--tokens", o.tokens, int64_t{1} << 24);
  check_range("--threads", o.threads, 4096);
  for (const int64_t threads : o.threads) check_threads(threads);
  check_range("--steps", {o.steps}, 1 << 16);
  check_range("--repeat", {o.repeat}, 1 << 20);
  if (o.warmup < 0) fail_usage("--warmup is ", o.warmup, "; it must be 0 or above.");
  if (o.batches.empty() || o.precisions.empty() || o.engines.empty()) {
    fail_usage("A list is empty: --batch, --precision and --engine need at least one entry each.");
  }
}

std::vector<ModelBenchRow> run_model_bench(
    const ModelBenchOptions& options, const std::function<void(const ModelBenchRow&)>& report) {
  check_model_bench(options);
  Reference reference;
  std::vector<ModelBenchRow> rows;
  for (const Configuration& c : configurations(options)) {
    if (options.stop != nullptr && *options.stop) break;
    rows.push_back(measure(options, c, reference));
    report(rows.back());
  }
  return rows;
}

void save_bench_weights(const ModelBenchOptions& options, const std::string& file) {
  if (options.models.size() != 1 || options.mixers.size() > 1) {
    fail_usage("--save-weights takes one model and at most one mixer, found ",
               options.models.size(), " and ", options.mixers.size(), ".");
  }
  const std::string mixer = options.mixers.empty() ? "" : options.mixers[0];
  open_bench_model({options.models[0], mixer, longest_text(options)})->save(file);
}

void save_bench_logits(const ModelBenchOptions& options, const std::string& file) {
  check_model_bench(options);
  const auto all = configurations(options);
  for (const Configuration& c : all) {
    const auto &a = c.task, &b = all[0].task;
    if (c.source.name == all[0].source.name && c.source.mixer == all[0].source.mixer &&
        a.test == b.test && a.batch == b.batch && a.size == b.size && c.threads == all[0].threads) {
      continue;
    }
    fail_usage("--save-logits takes one model, test, batch, size and number of threads.");
  }
  Reference reference;
  std::map<std::string, Tensor> tensors;
  for (const Configuration& c : all) {
    const ThreadsScope threads(c.threads);
    const auto [input, wanted] = reference.get(c);
    const auto model = open_bench_model(c.source);
    ModelBenchRow row = row_of(c, *model);
    tensors["input"] = input;
    tensors["plain"] = wanted;
    const BenchRunner runner = model->make_runner(c.task, input, c.precision, c.engine);
    tensors[cat(c.precision, c.engine ? ".engine" : ".plain")] =
        checked_logits(runner, wanted, row);
  }
  save_safetensors(file, tensors);
}

}  // namespace tost
