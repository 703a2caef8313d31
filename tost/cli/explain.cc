// tost explain: a page that shows the inside of a trained model; one function for each kind.
#include <iostream>

#include "tost/base/error.h"
#include "tost/cli/commands.h"
#include "tost/cli/explain_command.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/explain/report_folder.h"

namespace tost {
namespace {

[[noreturn]] void refuse_sequence(const CLI::App&, ExplainCommand& command) {
  fail_usage("'", command.checkpoint,
             "' holds a sequence model; tost explain shows image and language models.");
}

struct ExplainKind {
  const char* kind;
  void (*run)(const CLI::App&, ExplainCommand&);
};
constexpr ExplainKind kKinds[] = {
    {"vision", run_vision_explain}, {"language", run_text_explain}, {"sequence", refuse_sequence}};

void run_explain(const CLI::App& app, const KindFlags& flags, ExplainCommand& command) {
  set_threads(command.run.threads);
  command.write = !command.run.json || app.count("--out") > 0;
  // Noticed now rather than when everything is computed.
  if (command.write) check_report_target(command.out, command.overwrite);
  if (command.samples < 1) {
    fail_usage("--samples is ", command.samples, "; at least 1 is needed.");
  }
  const Kind& kind =
      kind_named(model_kind(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw));
  check_kind(kind, flags);
  row_of_kind(kKinds, kind).run(app, command);
}

}  // namespace

void finish_report(nlohmann::json numbers, const ExplainCommand& command) {
  numbers["title"] = command.title.empty() ? nlohmann::json() : nlohmann::json(command.title);
  if (command.write) write_report(command.out, numbers, command.overwrite);
  if (command.run.json) std::cout << report_text(numbers) << std::flush;
}

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show the inside of a trained model as a page with its numbers");
  auto options = std::make_shared<ExplainCommand>();
  add_model_argument(*command, "checkpoint", options->checkpoint);
  command->add_option(
      "images", options->images,
      "JPEG or PNG files, or for a language model one text (- is stdin); without any, a few "
      "of the data's pictures, or the beginning of its text");
  command->add_option("--out", options->out, "Folder of the report; with --json none unless given")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace an earlier report there");
  command->add_option("--title", options->title, "Of the page (default: from the model's name)");
  add_data_options(*command, options->data, false);
  command->get_option("--data")->description(
      "Data of the statistics (default: what the run was trained on)");
  command->add_option("--split", options->split,
                      "Shown next to train: validation or test (default: the first that is there)");
  add_value(*command, "--samples", options->samples, "Pictures or windows of each split");
  command
      ->add_option("--layers", options->layers,
                   "Layers of detailed panels, from 1: 1,6,12 (default: first, middle, last)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--heads", options->heads, "Heads shown, from 1: 1,3 (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--bound", options->bound,
                    "Also the variational bound against the exact coding rate, layer by layer");
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  auto flags = std::make_shared<KindFlags>();
  (*flags)["vision"] = {command->get_option("--data-format")};
  for (CLI::Option* flag : flags->at("vision")) flag->group("Image models");
  (*flags)["language"] = add_text_explain_options(*command, *options);
  add_example(*command,
              "  tost explain run photo.jpg other.png --out report\n"
              "  tost explain run --out report --layers 1,6 --heads 2 --bound\n"
              "  tost explain lm --text \"ROMEO: But soft\" --out report");
  command->callback([command, flags, options] { run_explain(*command, *flags, *options); });
}

}  // namespace tost
