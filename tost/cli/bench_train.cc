// tost bench train: whole training steps compared with their matrix products alone.
#include <ATen/Parallel.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/model.h"
#include "tost/kinds/vision/presets.h"
#include "tost/ops/device.h"
#include "tost/study/train_bench.h"

namespace tost {
namespace {

using nlohmann::json;

struct BenchTrainOptions {
  RunOptions run;
  TrainBenchOptions bench;
  std::string model = "tost_gpt_base";
  std::string precisions = "fp32,bf16";
  std::string mixer;
  int64_t block = 0;
  int64_t batch = 0;
};

// With graphs there is no time of forward alone, nor of backward.
json part_json(double ms) {
  return ms > 0 ? json(ms) : json();
}

json cost_json(const StepCost& cost, double floor_ms) {
  if (cost.ms == 0) return nullptr;
  auto object = TOST_MEMBERS(cost, ms, graphs, forward_backward_ms, update_ms, bytes, state_bytes);
  object["over_floor"] = cost.ms / floor_ms;
  object["forward_ms"] = part_json(cost.forward_ms);
  object["backward_ms"] = part_json(cost.backward_ms);
  return object;
}

json row_json(const TrainBenchRow& row) {
  auto object = TOST_MEMBERS(row, precision, samples, parameters, floor_ms, floor_gflop);
  object["step"] = cost_json(row.step, row.floor_ms);
  object["plain"] = cost_json(row.plain, row.floor_ms);
  object["twin"] = cost_json(row.twin, row.floor_ms);
  return object;
}

void print_cost(const char* name, const StepCost& cost, double floor_ms) {
  if (cost.ms == 0) return;
  std::cout << "  " << std::left << std::setw(18) << name << std::right << std::fixed
            << std::setprecision(1) << std::setw(9) << cost.ms << " ms  " << std::setprecision(3)
            << cost.ms / floor_ms << " of the floor  (" << std::setprecision(1);
  if (cost.forward_ms > 0) {
    std::cout << "forward " << cost.forward_ms << ", backward " << cost.backward_ms;
  } else {
    std::cout << "forward and backward " << cost.forward_backward_ms;
  }
  std::cout << ", update " << cost.update_ms << (cost.graphs ? ", by graphs)" : ")");
  if (cost.bytes > 0) {
    std::cout << "  " << human_bytes(cost.bytes) << " + " << human_bytes(cost.state_bytes);
  }
  std::cout << "\n";
}

void print_row(const TrainBenchRow& row) {
  std::cout << row.precision << "\n  " << std::left << std::setw(18) << "matrix products"
            << std::right << std::fixed << std::setprecision(1) << std::setw(9) << row.floor_ms
            << " ms  " << row.floor_gflop / row.floor_ms * 1e3 << " GFLOP/s\n";
  print_cost("step", row.step, row.floor_ms);
  print_cost("  plain form", row.plain, row.floor_ms);
  print_cost("  softmax model", row.twin, row.floor_ms);
  std::cout << std::flush;
}

void take_model(BenchTrainOptions& options) {
  TrainBenchOptions& bench = options.bench;
  const auto vision = vision_preset_names();
  const bool is_vision = std::count(vision.begin(), vision.end(), options.model) > 0;
  bench.batch = options.batch > 0 ? options.batch : is_vision ? 16 : 1;
  if (options.batch < 0) fail_usage("--batch is ", options.batch, "; it must be 0 or above.");
  if (options.block < 0) fail_usage("--block is ", options.block, "; it must be 0 or above.");
  if (is_vision) {
    if (options.block > 0) fail_usage("--block is for language models; images have --image-size.");
    bench.vision = vision_preset(options.model);
    if (!options.mixer.empty()) bench.vision->mixer = options.mixer;
    return;
  }
  bench.config = language_preset(options.model);
  if (options.block > 0) bench.config.block = options.block;
  if (!options.mixer.empty()) bench.config.mixer = options.mixer;
}

std::string sample_text(const TrainBenchOptions& bench) {
  if (bench.vision) return cat(bench.image_size, "x", bench.image_size, " pixels");
  return cat(bench.config.block, " tokens");
}

void run_bench_train(BenchTrainOptions& options) {
  set_threads(options.run.threads);
  TrainBenchOptions& bench = options.bench;
  bench.device = device_from_name(options.run.device);
  bench.graphs = options.run.graphs;
  const std::string where = device_label(bench.device);
  take_model(options);
  bench.precisions = parse_precisions(options.precisions);
  if (!options.run.json) {
    std::cout << options.model << ", batch " << bench.batch << " x " << sample_text(bench) << ", "
              << where << ", median of " << bench.repeat
              << "; memory: gradients and activations + weights and moments\n"
              << std::flush;
  }
  const auto rows = run_train_bench(bench, [&](const TrainBenchRow& row) {
    if (!options.run.json) print_row(row);
  });
  if (!options.run.json) return;
  json list = json::array();
  for (const TrainBenchRow& row : rows) list.push_back(row_json(row));
  print_json({{"model", options.model},
              {"batch", bench.batch},
              {bench.vision ? "image_size" : "block",
               bench.vision ? bench.image_size : bench.config.block},
              {"threads", at::get_num_threads()},
              {"device", options.run.device},
              {"where", where},
              {"repeat", bench.repeat},
              {"precisions", list}});
}

}  // namespace

void add_bench_train_command(CLI::App& bench) {
  auto options = std::make_shared<BenchTrainOptions>();
  CLI::App* command = bench.add_subcommand(
      "train",
      "A training step against its matrix products, the plain form and the softmax counterpart");
  add_value(*command, "--model", options->model, "Preset of an image or language model");
  command->add_option("--mixer", options->mixer, "Token mixer instead of the preset's");
  add_value(*command, "--batch", options->batch, "Sequences or images (0: 1 or 16)");
  add_value(*command, "--image-size", options->bench.image_size, "Pixels a side of an image");
  add_value(*command, "--recompute", options->bench.recompute,
            "What backward computes again: none, mlp or block");
  add_value(*command, "--block", options->block, "Tokens a sequence (0: the preset's)");
  add_value(*command, "--precision", options->precisions, "fp32, bf16 or both");
  add_value(*command, "--repeat", options->bench.repeat, "Rounds; medians are reported");
  command->add_flag("--plain,!--no-plain", options->bench.plain, "Measure the plain form (on)");
  command->add_flag("--twin,!--no-twin", options->bench.twin,
                    "Measure the softmax counterpart (on)");
  add_device_option(*command, options->run);
  add_graphs_option(*command, options->run);
  command->get_option("--graphs")
      ->description(
          "On a GPU, run as CUDA graphs: on, off, or auto: where it can be; forward and backward "
          "are one "
          "then, with one time");
  add_run_options(*command, options->run);
  add_example(*command, "  tost bench train --model tost_cab_small_12_p16 --batch 16");
  add_example(*command, "  tost bench train --model tost_gpt_base --batch 1 --precision fp32,bf16");
  command->callback([options] { run_bench_train(*options); });
}

}  // namespace tost
