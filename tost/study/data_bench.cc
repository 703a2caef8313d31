#include "tost/study/data_bench.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/scratch_folder.h"
#include "tost/base/text.h"
#include "tost/base/thread.h"
#include "tost/bench/bench_model.h"
#include "tost/bench/timing.h"
#include "tost/data/token_data.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/vision/presets.h"
#include "tost/study/data_sources.h"
#include "tost/study/train_bench.h"

namespace tost {
namespace {

constexpr int64_t kTextTokens = 1 << 20;
constexpr int64_t kTextCrops = 512;  // batches of a pass

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Calls work(k) for k = 0 ... threads - 1, each on a thread of its own; the first Error is thrown.
void on_threads(int64_t threads, const std::function<void(int64_t)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (int64_t k = 0; k < threads; ++k) {
    const auto guarded = [&, k] {
      try {
        work(k);
      } catch (...) {
        errors[size_t(k)] = std::current_exception();
      }
    };
    try {
      running.push_back(start_thread(guarded));
    } catch (const Error&) {
      errors[size_t(k)] = std::current_exception();
      break;
    }
  }
  for (auto& thread : running) thread.join();
  for (const auto& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// Fills in the rate of passes over `count` items. Gives the times of `others`, which alternate with
// them, from index 1 on.
std::vector<std::vector<double>> time_passes(DataBenchRow& row, int64_t count, int64_t repeat,
                                             const std::function<void()>& pass,
                                             const std::vector<Contestant>& others = {}) {
  std::vector<double> spent;
  std::vector<Contestant> all{{[&] {
    const double before = processor_seconds();
    pass();
    spent.push_back(processor_seconds() - before);
  }}};
  all.insert(all.end(), others.begin(), others.end());
  const auto times = time_rounds(1, repeat, all);
  for (const double ms : times[0]) row.rates.push_back(1e3 * double(count) / ms);
  const Quartiles q = quartiles(row.rates);
  row.low = q.low, row.median = q.median, row.high = q.high;
  const double processor = std::accumulate(spent.begin() + 1, spent.end(), 0.0);  // one warms
  row.processor_us = 1e6 * processor / (double(count) * double(repeat));
  return times;
}

// What training steps of a preset consume; each measured once for every size of its input.
class Steps {
 public:
  explicit Steps(const DataBenchOptions& options) : options_(options) {}

  void fill(const std::string& model, bool language, DataBenchRow& row) {
    if (!options_.step) return;
    row.step_model = model;
    row.step_precision = options_.precision;
    row.step_threads = at::get_num_threads();
    auto [known, is_new] = rates_.try_emplace({model, row.size});
    if (is_new) known->second = measure(bench_of(model, language, row.size));
    row.step = known->second;
  }

  // Throws the usage Errors of fill(), before anything is made.
  void check(const std::string& model, bool language, int64_t size) const {
    if (options_.step) check_train_bench(bench_of(model, language, size));
  }

 private:
  TrainBenchOptions bench_of(const std::string& model, bool language, int64_t size) const {
    TrainBenchOptions bench;
    if (language) {
      bench.config = language_preset(model);
    } else {
      bench.vision = vision_preset(model);
      bench.image_size = size;
    }
    bench.batch = options_.batch;
    bench.precisions = {options_.precision};
    bench.repeat = options_.repeat;
    bench.plain = bench.twin = false;
    return bench;
  }

  static double measure(const TrainBenchOptions& bench) {
    const TrainBenchRow row = run_train_bench(bench, [](const TrainBenchRow&) {}).back();
    return 1e3 * double(row.samples) / row.step.ms;
  }

  const DataBenchOptions& options_;
  std::map<std::pair<std::string, int64_t>, double> rates_;  // by model and size of its input
};

DataBenchRow measure_pictures(const DataBenchOptions& options, const PictureSource& source,
                              const std::string& recipe, int64_t workers) {
  const LoaderConfig config = loader_config(source, recipe, options, workers);
  DataBenchRow row{.source = source.name, .recipe = recipe, .unit = "images/s"};
  row.size = source.side, row.batch = options.batch, row.workers = workers;
  row.deviation = check_pictures(source, config);
  ImageLoader loader(source.dataset, config);
  int64_t epoch = 0;
  const auto pass = [&] {
    loader.start_epoch(epoch++);
    while (loader.next()) {
    }
  };
  const auto decode = [&] {
    on_threads(workers, [&](int64_t k) {
      for (int64_t i = k; i < options.pictures; i += workers) source.plain(i);
    });
  };
  std::vector<Contestant> others;
  if (source.decodes) others.push_back({decode});
  const auto times = time_passes(row, loader.images_per_epoch(), options.repeat, pass, others);
  if (source.decodes) row.plain = 1e3 * double(options.pictures) / median(times[1]);
  return row;
}

// Token i is i modulo the vocabulary, so that a crop tells whether it is one.
void check_crop(const TokenSource& source, int64_t batch, int64_t block, int64_t vocab) {
  const auto [ids, next] = crop_batch(source, batch, block, 0, 0);
  const auto first = ids.narrow(1, 0, 1);
  const auto wanted = (first + torch::arange(block).unsqueeze(0)) % vocab;
  if (torch::equal(ids, wanted) && torch::equal(next, (wanted + 1) % vocab)) return;
  fail_data("A crop of the tokens is not a part of them; nothing was measured. Please report this ",
            "with the output of `tost info`.");
}

DataBenchRow measure_text(const DataBenchOptions& options, int64_t workers) {
  const LanguageConfig config = language_preset(options.text_model);
  std::vector<int32_t> ids(static_cast<size_t>(kTextTokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(int64_t(i) % config.vocab);
  const TokenSource source(ids, "tokens");
  check_crop(source, options.batch, config.block, config.vocab);
  DataBenchRow row{.source = "text", .recipe = "crops", .unit = "tokens/s"};
  row.size = config.block, row.batch = options.batch, row.workers = workers;
  time_passes(row, kTextCrops * options.batch * config.block, options.repeat, [&] {
    on_threads(workers, [&](int64_t k) {
      for (int64_t i = k; i < kTextCrops; i += workers) {
        crop_batch(source, options.batch, config.block, 0, i);
      }
    });
  });
  return row;
}

void check(const DataBenchOptions& o) {
  check_names("--source", o.sources, {"jpeg", "png", "raw", "text"});
  check_range("--width", {o.width}, 8192);
  check_range("--height", {o.height}, 8192);
  check_range("--image-size", {o.image_size}, 1024);
  check_range("--batch", {o.batch}, 4096);
  check_range("--repeat", {o.repeat}, 1 << 20);
  check_range("--pictures", {o.pictures}, 100'000);
  check_range("--workers", o.workers, 256);
  for (const int64_t workers : o.workers) {
    if (o.pictures < o.batch * workers) {
      fail_usage("--pictures is ", o.pictures, "; ", workers, " workers need a batch of ", o.batch,
                 " each.");
    }
  }
  if (o.sources.empty() || o.recipes.empty() || o.workers.empty()) {
    fail_usage("A list is empty: --source, --recipe and --workers need at least one entry each.");
  }
}

// Whose steps consume what a source gives.
const std::string& model_of(const DataBenchOptions& o, const std::string& source) {
  return source == "text" ? o.text_model : source == "raw" ? o.raw_model : o.model;
}

// Bad names, and pictures that a model does not take, show before anything is drawn or measured.
void check_models(const DataBenchOptions& o, const Steps& steps) {
  for (const auto& recipe : o.recipes) loader_config({}, recipe, o, 1);
  vision_preset(o.model);
  vision_preset(o.raw_model);
  language_preset(o.text_model);
  for (const auto& name : o.sources) {
    steps.check(model_of(o, name), name == "text", name == "raw" ? kRawSide : o.image_size);
  }
}

}  // namespace

Precision step_precision(const std::string& text) {
  const auto found = parse_precisions(text);
  if (found.size() == 1) return found[0];
  fail_usage("--precision is '", text, "'; steps are measured in one, fp32 or bf16.");
}

std::vector<DataBenchRow> run_data_bench(const DataBenchOptions& options,
                                         const std::function<void(const DataBenchRow&)>& report) {
  check(options);
  Steps steps(options);
  check_models(options, steps);
  const ScratchFolder folder(options.folder, "name another with --folder");
  std::vector<DataBenchRow> rows;
  for (const auto& name : options.sources) {
    const bool text = name == "text";
    std::optional<PictureSource> source;
    if (!text) source = make_picture_source(name, options, folder.path());
    for (const auto& recipe : text ? std::vector<std::string>{"crops"} : options.recipes) {
      for (const int64_t workers : options.workers) {
        if (options.stop != nullptr && *options.stop) return rows;
        rows.push_back(text ? measure_text(options, workers)
                            : measure_pictures(options, *source, recipe, workers));
        steps.fill(model_of(options, name), text, rows.back());
        report(rows.back());
      }
    }
  }
  return rows;
}

namespace {

BenchRowJson row_json(const DataBenchRow& r, const BenchOrigin& origin) {
  const bool stepped = !r.step_model.empty();
  BenchRowJson row{{"source", r.source},
                   {"recipe", r.recipe},
                   {"size", r.size},
                   {"batch", r.batch},
                   {"workers", r.workers},
                   {"median", measured(r.median)},
                   {"low", measured(r.low)},
                   {"high", measured(r.high)},
                   {"unit", r.unit},
                   {"repeat", r.rates.size()},
                   {"processor_us", measured(r.processor_us)},
                   {"plain", measured(r.plain)},
                   {"of_plain", measured(r.median / r.plain)},
                   {"deviation", r.deviation},
                   {"step_model", stepped ? BenchRowJson(r.step_model) : BenchRowJson()},
                   {"step_precision", stepped ? BenchRowJson(r.step_precision) : BenchRowJson()},
                   {"step_threads", stepped ? BenchRowJson(r.step_threads) : BenchRowJson()},
                   {"step", measured(r.step)},
                   {"times_the_step", measured(r.median / r.step)}};
  add_origin(row, origin);
  return row;
}

std::string rate(double value) {
  return value < 1e5 ? three_digits(value) : three_digits(value / 1e6) + " M";
}

std::string ratio(double value, double of) {
  return of > 0 ? format_text("%.2f", value / of) : "–";
}

std::string markdown_row(const DataBenchRow& r) {
  const bool stepped = !r.step_model.empty();
  const std::vector<std::string> cells{
      r.source,
      r.recipe,
      std::to_string(r.size),
      std::to_string(r.workers),
      cat(rate(r.median), " [", rate(r.low), ", ", rate(r.high), "] ", r.unit),
      r.processor_us < 1 ? cat(three_digits(1e3 * r.processor_us), " ns")
                         : cat(three_digits(r.processor_us), " µs"),
      r.plain > 0 ? rate(r.plain) : "–",
      ratio(r.median, r.plain),
      stepped ? cat(rate(r.step), " (", r.step_model, ", ", r.step_precision, ", ", r.step_threads,
                    r.step_threads == 1 ? " thread)" : " threads)")
              : "–",
      ratio(r.median, r.step),
      r.deviation > 0 ? format_text("%.1f", r.deviation) : "0"};
  return markdown_line(cells);
}

}  // namespace

nlohmann::json data_bench_json(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  return json_table(rows, [&](const DataBenchRow& row) {
    BenchRowJson json = row_json(row, origin);
    json["rates"] = row.rates;
    return json;
  });
}

std::string data_bench_csv(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  return csv_table(rows, [&](const DataBenchRow& row) { return row_json(row, origin); });
}

std::string data_bench_markdown(const std::vector<DataBenchRow>& rows, const BenchOrigin& origin) {
  std::string text =
      "| source | recipe | size | workers | rate [quartiles] | processor time each | plain decode "
      "| of plain | a training step's | times the step | grey levels off |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& row : rows) text += markdown_row(row);
  return text + "\n" + origin_line(origin);
}

}  // namespace tost
