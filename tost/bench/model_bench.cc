#include "tost/bench/model_bench.h"

#include <algorithm>
#include <charconv>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/engine/arrays_file.h"
#include "tost/engine/threads.h"
#include "tost/kernels/block_cache.h"

namespace tost {
namespace {

// Throw a usage Error that names the flag, if a value is not in 1 to `most` or a name is unknown.
void check_range(const char* flag, const std::vector<int64_t>& values, int64_t most) {
  for (const int64_t value : values) {
    if (value < 1 || value > most)
      fail_usage(flag, " is ", value, "; it must be from 1 to ", most, ".");
  }
}

void check_names(const char* flag, const std::vector<std::string>& found,
                 const std::vector<std::string>& known) {
  for (const auto& name : found) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail_usage(flag, " '", name, "' is none of ", join(known, ", "), ".",
               did_you_mean(name, known));
  }
}

struct Configuration {
  BenchModelSource source;
  BenchTask task;
  Precision precision;
  bool engine = false;
  int64_t threads = 0;
};

// Sets the number of threads until the result is destroyed.
std::shared_ptr<void> use_threads(const BenchBackend& backend, int64_t threads) {
  const int before = engine_threads();
  if (threads == before) return nullptr;
  backend.set_threads(int(threads));
  return {nullptr, [set = backend.set_threads, before](void*) { set(before); }};
}

void give_memory_back() {
  BlockCache::instance().empty();
  malloc_trim(0);
}

std::string key_of(const Configuration& c) {
  const auto& t = c.task;
  return cat(c.source.name, ' ', c.source.mixer, ' ', t.test, ' ', t.batch, ' ', t.size);
}

// Caches the input of the last task, and the fp32 logits of the reference for this input.
class Reference {
 public:
  explicit Reference(const BenchBackend& backend) : backend_(backend) {}

  const std::pair<Array, Array>& get(const Configuration& c) {
    if (key_of(c) == key_) return pair_;
    const auto model = backend_.open(c.source);
    BenchTask here = c.task;  // the CPU's numbers are those of every device
    here.device = "cpu";
    const Array input = model->draw_input(here);
    const BenchRunner runner =
        model->make_runner(here, input, Precision::kFp32, /*engine=*/!backend_.modules);
    runner.prepare();
    pair_ = {input, backend_.floats(runner.run()).clone()};
    key_ = key_of(c);
    return pair_;
  }

 private:
  const BenchBackend& backend_;
  std::string key_;
  std::pair<Array, Array> pair_;
};

ModelBenchRow row_of(const Configuration& c, const BenchModel& model, const BenchDevice& device) {
  ModelBenchRow row;
  row.model = c.source.name;
  row.kind = model.facts.kind;
  row.unit = cat(model.facts.unit, "/s");
  row.device = device.name;
  row.mixer = model.facts.mixer;
  row.test = c.task.test;
  row.precision = c.precision;
  row.batch = c.task.batch;
  row.size = c.task.size;
  row.threads = c.threads;
  row.engine = c.engine;
  return row;
}

Array checked_logits(const BenchBackend& backend, const BenchRunner& runner, const Array& wanted,
                     ModelBenchRow& row) {
  runner.prepare();
  Array found = backend.floats(runner.run()).clone();
  row.error = relative_error(found, wanted);
  const double allowed = facts_of(row.precision).logit_error;
  if (!(row.error <= allowed)) {
    fail_data("The logits of ", row.model, " in ", row.precision,
              row.engine ? " by the engine" : "", ", batch ", row.batch, ", deviate by ", row.error,
              " of the largest from the ", backend.modules ? "plain ones" : "engine's in fp32",
              ", more than ", allowed,
              "; nothing was measured. Please report this with the output of `tost info`.");
  }
  return found;
}

void fill_times(const ModelBenchOptions& options, const Configuration& c, const BenchRunner& runner,
                const BenchDevice& device, ModelBenchRow& row) {
  row.times_ms =
      time_rounds(options.warmup, options.repeat, {{[&] { runner.run(); }, runner.prepare}},
                  ms_clock([&] { device.synchronize(); }))[0];
  for (double& ms : row.times_ms) ms /= double(c.task.steps);
  const Quartiles q = quartiles(row.times_ms);
  row.low_ms = q.low, row.median_ms = q.median, row.high_ms = q.high;
  const int64_t each = c.task.test == "prefill" ? c.task.size : 1;
  row.rate = 1e3 * double(c.task.batch * each) / row.median_ms;
}

// The remaining time includes the timers' work, some 0.1 us for each piece.
void fill_work(const ModelBenchOptions& options, const Configuration& c, const BenchRunner& runner,
               ModelBenchRow& row) {
  const int64_t calls = std::max<int64_t>(3, options.repeat / 2);
  const double each = double(calls * c.task.steps);
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
                 const BenchDevice& device, ModelBenchRow& row) {
  // Skips decoding, whose products have a few rows and are bound by reading the weights.
  if (options.backend.products && row.test != "decode" && facts_of(row.precision).packing) {
    const auto floor = options.backend.products(
        products, row.precision, std::max<int64_t>(3, options.repeat / 2), options.device);
    row.products_ms = floor.ms, row.products_gflop = floor.gflop;
  }
  if (row.weight_bytes >= 8) row.read_ms = device.read_ms(row.weight_bytes);
}

ModelBenchRow measure(const ModelBenchOptions& options, const Configuration& c,
                      Reference& reference) {
  const auto threads = use_threads(options.backend, c.threads);
  const auto device = options.backend.device(c.task.device);
  ModelBenchRow row;
  std::vector<Product> products;
  {
    const auto [input, wanted] = reference.get(c);
    give_memory_back();
    device->restart_peak();
    const auto model = options.backend.open(c.source);
    row = row_of(c, *model, *device);
    products = model->products(c.task);
    BenchRunner runner;
    try {
      runner = model->make_runner(c.task, input, c.precision, c.engine);
      row.weight_bytes = runner.weight_bytes;
      checked_logits(options.backend, runner, wanted, row);
      fill_times(options, c, runner, *device, row);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      row.missing = error.what();
      return row;
    }
    if (options.work && c.engine) fill_work(options, c, runner, row);
    row.peak_bytes = device->peak_bytes();
  }
  give_memory_back();
  if (options.floors) fill_floors(options, products, *device, row);
  give_memory_back();
  return row;
}

// Returns the tasks that are measured for one model.
std::vector<BenchTask> tasks_of(const ModelBenchOptions& o, const BenchModel& model) {
  std::vector<BenchTask> tasks;
  const bool pictures = std::string(model.facts.unit) == "images";
  auto sizes = pictures ? o.image_sizes : o.tokens;
  if (sizes.empty()) sizes = {model.facts.default_size};
  for (const std::string& test : model.facts.tests) {
    if (!o.tests.empty() && std::ranges::count(o.tests, test) == 0) continue;
    for (const int64_t batch : o.batches) {
      for (const int64_t size : sizes) {
        tasks.push_back({test, batch, size, test == "decode" ? o.steps : 1, o.device});
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
  const auto threads = o.threads.empty() ? std::vector<int64_t>{engine_threads()} : o.threads;
  const int64_t longest = longest_text(o);
  for (const auto& name : o.models) {
    for (const auto& mixer : mixers) {
      const BenchModelSource source{name, mixer, longest};
      for (const auto& task : tasks_of(o, *o.backend.open(source))) {
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
  if (o.backend.device(o.device)->is_cpu()) return;
  const bool integers =
      std::ranges::any_of(o.precisions, [](Precision p) { return !facts_of(p).modules; });
  if (std::ranges::count(o.engines, true) > 0 || integers || o.work) {
    fail_usage("The inference engine, ", list_of(integer_precisions()),
               " and --work are the CPU's; with --device ", o.device,
               " measure --engine off in fp32 and bf16.");
  }
}

}  // namespace

Precisions precisions_named(const char* flag, const std::vector<std::string>& names) {
  check_names(flag, names, names_of(all_precisions()));
  Precisions found;
  for (const auto& name : names) found.push_back(precision_from_name(name));
  return found;
}

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
  Reference reference(options.backend);
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
  options.backend.open({options.models[0], mixer, longest_text(options)})->save(file);
}

void save_bench_logits(const ModelBenchOptions& options, const std::string& file) {
  check_model_bench(options);
  const auto all = configurations(options);
  for (const Configuration& c : all) {
    if (key_of(c) == key_of(all[0]) && c.threads == all[0].threads) continue;
    fail_usage("--save-logits takes one model, test, batch, size and number of threads.");
  }
  Reference reference(options.backend);
  const auto device = options.backend.device(options.device);
  Arrays arrays;
  for (const Configuration& c : all) {
    const auto threads = use_threads(options.backend, c.threads);
    const auto [input, wanted] = reference.get(c);
    const auto model = options.backend.open(c.source);
    ModelBenchRow row = row_of(c, *model, *device);
    arrays["input"] = input;
    arrays["plain"] = wanted;
    const BenchRunner runner = model->make_runner(c.task, input, c.precision, c.engine);
    arrays[cat(c.precision, c.engine ? ".engine" : ".plain")] =
        checked_logits(options.backend, runner, wanted, row);
  }
  save_arrays(file, arrays);
}

}  // namespace tost
