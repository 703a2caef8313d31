#include "tost/cli/explain_vision.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/eval/run_layout.h"
#include "tost/explain/vision_json.h"
#include "tost/explain/vision_page.h"
#include "tost/train/vision_train_config.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// The configuration of the run that a model file lies in (RUN/checkpoints/STEP/FILE), if it does.
std::optional<VisionTrainConfig> run_config(const fs::path& model_file) {
  const fs::path checkpoints = fs::absolute(model_file).parent_path().parent_path();
  if (checkpoints.filename() != kCheckpointFolder) return std::nullopt;
  const fs::path file = checkpoints.parent_path() / kConfigFile;
  if (!fs::is_regular_file(file)) return std::nullopt;
  nlohmann::json values = read_config_file(file);
  values.erase("from");  // need not be there any more
  return make_config(vision_train_form(), values, cat("'", file.string(), "'"));
}

// The data to look at: that of --data, else what the run was trained on. Nothing where neither is
// known.
std::optional<DataSpec> data_of(const ExplainCommand& command, const fs::path& model_file) {
  const auto config = run_config(model_file);
  const bool given = !command.data.path.empty();
  // The run's own data keeps the run's settings (the side of shapes, the held-out share).
  if (given && (!config || config->data != command.data.path)) return command.data;
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

// Data that was not asked for may be gone; the report then says so.
void add_data(const ExplainCommand& command, const fs::path& model_file,
              VisionExplainOptions& options) {
  const auto spec = data_of(command, model_file);
  if (!spec) {
    options.no_data =
        "The model file is not in a run folder that names its data; give it with --data.";
    return;
  }
  try {
    open_data(command, *spec, options);
  } catch (const Error& error) {
    if (!command.data.path.empty() || !command.split.empty()) throw;
    options.no_data =
        cat("The run's data cannot be opened any more (", error.what(), ") Give it with --data.");
  }
}

void print_result(const VisionReport& report, const ExplainCommand& command) {
  for (const PictureMaps& maps : report.pictures) {
    std::printf("%5.1f %%  %-20s %s\n", 100 * maps.top.front().probability,
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

void run_vision_explain(ExplainCommand& command) {
  const LoadedModel loaded =
      load_model_file(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw);
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
  save_report(command.out, vision_page(*report, command.title), to_json(*report),
              command.overwrite);
  if (command.run.json) {
    nlohmann::json summary = summary_json(*report);
    summary["out"] = command.out;
    return print_json(summary);
  }
  if (!report->class_warning.empty()) std::cerr << "warning: " << report->class_warning << "\n";
  print_result(*report, command);
}

}  // namespace tost
