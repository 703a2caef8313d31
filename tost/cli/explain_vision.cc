// The part of tost explain that concerns image models.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/explain_command.h"
#include "tost/cli/program.h"
#include "tost/cli/run_config.h"
#include "tost/cli/terminal.h"
#include "tost/kinds/vision/explain_json.h"
#include "tost/kinds/vision/explain_report.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// The data to look at: that of --data, else what the run was trained on. Nothing where neither is
// known.
std::optional<DataSpec> data_of(const ExplainCommand& command, const fs::path& model_file) {
  const auto config = run_config(vision_train_form(), model_file);
  const bool given = !command.data.path.empty();
  // The run's own data keeps the run's settings (the side of shapes, the held-out share).
  if (given && (!config || !same_path(config->data, command.data.path))) return command.data;
  if (!config) return std::nullopt;
  DataSpec spec = data_spec(*config);
  if (command.data.format != "auto") spec.format = command.data.format;
  return spec;
}

std::string held_split(const std::string& wanted, const std::vector<std::string>& splits) {
  if (!wanted.empty()) return wanted == "val" ? "validation" : wanted;
  for (const char* split : {"validation", "test"}) {
    if (std::find(splits.begin(), splits.end(), split) != splits.end()) return split;
  }
  return "";
}

void open_data(const ExplainCommand& command, const DataSpec& spec, VisionExplainOptions& options) {
  const auto splits = image_dataset_splits(spec);
  const std::string held = held_split(command.split, splits);
  if (held != "train" && std::find(splits.begin(), splits.end(), "train") != splits.end()) {
    options.train = open_image_dataset(spec, "train");
  }
  if (!held.empty()) options.held = open_image_dataset(spec, held);
  options.held_split = held;
  options.data = spec.path;
}

void add_data(const ExplainCommand& command, const fs::path& model_file,
              VisionExplainOptions& options) {
  const auto spec = data_of(command, model_file);
  options.no_data =
      open_known_data(command, spec.has_value(), [&] { open_data(command, *spec, options); });
  if (!options.no_data.empty()) options.no_data.front() = 'T';  // "the ..."
}

void print_result(const VisionReport& report, const ExplainCommand& command) {
  for (const PictureMaps& maps : report.pictures) {
    std::printf("%5.1f %%  %-20s %s\n", plain_nan(100 * maps.top.front().probability),
                maps.top.front().name.c_str(), maps.input.name.c_str());
  }
  if (!report.others.empty()) {
    std::printf("%s more pictures are summarised\n",
                human_number(int64_t(report.others.size())).c_str());
  }
  for (const LeftOut& item : report.left_out) {
    std::printf("left out: %s: %s\n", item.panel.c_str(), item.reason.c_str());
  }
  std::printf("%s\n", (fs::path(command.out) / "index.html").c_str());
  std::fflush(stdout);
}

}  // namespace

void run_vision_explain(const CLI::App&, ExplainCommand& command) {
  const LoadedModel loaded =
      load_model_file(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw);
  loaded.model->to(device_from_name(command.run.device));
  VisionExplainOptions options;
  options.images = command.images;
  options.layers = command.layers;
  options.heads = command.heads;
  options.samples = command.samples;
  options.bound = command.bound;
  options.stop = stop_flag();
  ProgressLine progress(command.quiet || command.run.json);
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    progress.update(done, total, what);
  };
  add_data(command, loaded.file, options);
  const auto report = explain_vision(loaded, options);
  progress.finish();
  if (!report) {
    std::cerr << "interrupted\n";
    return set_exit_code(kExitInterrupted);
  }
  finish_report(to_json(*report), command);
  if (command.run.json) return;
  if (!report->class_warning.empty()) std::cerr << "warning: " << report->class_warning << "\n";
  print_result(*report, command);
}

}  // namespace tost
