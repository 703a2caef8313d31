// tost explain: writes a page that shows the inside of a trained model.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/explain/report.h"

namespace tost {
namespace {

using nlohmann::json;

struct ExplainCommand {
  RunOptions run;
  ExplainRequest request;
  std::string out = "report";  // its folder
  std::string title;           // empty: from the model's name
  std::string text;            // of --text
  bool overwrite = false, ema = false, quiet = false;
};

std::string text_of(const json& value) {
  return value.get<std::string>();
}

double number_of(const json& value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

void print_pictures(const json& report) {
  for (const json& picture : report["pictures"]) {
    const json& best = picture["top"].front();
    std::printf("%5.1f %%  %-20s %s\n", plain_nan(100 * number_of(best["probability"])),
                text_of(best["class"]).c_str(), text_of(picture["name"]).c_str());
  }
  if (const size_t others = report["other_pictures"].size(); others > 0) {
    std::printf("%s more pictures are summarised\n", human_number(int64_t(others)).c_str());
  }
  for (const json& item : report["left_out"]) {
    std::printf("left out: %s: %s\n", text_of(item["panel"]).c_str(),
                text_of(item["reason"]).c_str());
  }
}

void print_passage(const json& report) {
  const json& passage = report["passage"];
  const auto tokens = int64_t(passage["ids"].size());
  std::printf("passage  %s token%s of %s", human_number(tokens).c_str(), tokens == 1 ? "" : "s",
              text_of(passage["source"]).c_str());
  if (tokens > 1) {
    std::printf(", loss %.3f, perplexity %.2f", plain_nan(number_of(passage["loss"])),
                plain_nan(number_of(passage["perplexity"])));
  }
  std::printf("\n");
  for (const json* notes : {&passage["notes"], &report["left_out"]}) {
    for (const json& note : *notes) std::printf("note     %s\n", text_of(note).c_str());
  }
}

void run_explain(const CLI::App& app, const KindFlags& flags, ExplainCommand& command) {
  set_threads(command.run.threads);
  ExplainRequest& request = command.request;
  const bool write = !command.run.json || app.count("--out") > 0;
  // Checks the output folder before the computation, so that an error is reported at once.
  if (write) check_report_target(command.out, command.overwrite);
  if (request.samples < 1) {
    fail_usage("--samples is ", request.samples, "; at least 1 is needed.");
  }
  request.weights = command.ema ? Weights::kEma : Weights::kRaw;
  const Kind& kind = kind_named(model_kind(request.file, request.weights));
  check_kind(kind, flags);
  if (!kind.explain) {
    fail_usage("'", request.file, "' holds ", with_article(cat(kind.label, " model")),
               "; tost explain shows image and language models.");
  }
  request.device = command.run.device;
  request.samples_set = app.count("--samples") > 0;
  if (app.count("--text") > 0) request.text = command.text;
  ProgressLine progress(command.quiet || command.run.json);
  request.progress = [&](int64_t done, int64_t total, const std::string& what) {
    progress.update(done, total, what);
  };
  request.stop = stop_flag();
  json report = kind.explain(request);
  progress.finish();
  if (report.is_null()) return say_interrupted();
  report["title"] = command.title.empty() ? json() : json(command.title);
  if (write) write_report(command.out, report, command.overwrite);
  if (command.run.json) {
    std::cout << report_text(report) << std::flush;
    return;
  }
  if (const json warning = report.value("class_names_differ", json()); !warning.is_null()) {
    std::cerr << "warning: " << text_of(warning) << "\n";
  }
  report.contains("passage") ? print_passage(report) : print_pictures(report);
  std::printf("%s\n", (std::filesystem::path(command.out) / "index.html").c_str());
  std::fflush(stdout);
}

// Adds a flag that takes a list of layers or heads, counted from 1.
void add_numbers(CLI::App& command, const char* flag, std::vector<int64_t>& numbers,
                 const char* help) {
  command.add_option(flag, numbers, help)->delimiter(',')->allow_extra_args(false);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show the inside of a trained model as a page with its numbers");
  auto options = std::make_shared<ExplainCommand>();
  ExplainRequest& request = options->request;
  add_model_argument(*command, "checkpoint", request.file);
  command->add_option(
      "images", request.inputs,
      "JPEG or PNG files, or for a language model one text (- is stdin); without any, a few "
      "of the data's pictures, or the beginning of its text");
  command->add_option("--out", options->out, "Folder of the report; with --json none unless given")
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace an earlier report there");
  command->add_option("--title", options->title, "Of the page (default: from the model's name)");
  add_data_options(*command, request.data, request.data_format, false);
  command->get_option("--data")->description(
      "Data of the statistics (default: what the run was trained on)");
  command->add_option("--split", request.split,
                      "Shown next to train: validation or test (default: the first that is there)");
  add_value(*command, "--samples", request.samples, "Pictures or windows of each split");
  add_numbers(*command, "--layers", request.layers,
              "Layers of detailed panels, from 1: 1,6,12 (default: first, middle, last)");
  add_numbers(*command, "--heads", request.heads, "Heads shown, from 1: 1,3 (default: all)");
  command->add_flag("--bound", request.bound,
                    "Also the variational bound against the exact coding rate, layer by layer");
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  auto flags = std::make_shared<KindFlags>();
  (*flags)["vision"] = {command->get_option("--data-format")};
  (*flags)["language"] = {
      command->add_option("--text", options->text, "The passage to show (default: of the data)"),
      add_value(*command, "--max-tokens", request.max_tokens, "Of the passage"),
      add_tokenizer_option(*command, request.tokenizer)};
  for (CLI::Option* flag : flags->at("vision")) flag->group("Image models");
  for (CLI::Option* flag : flags->at("language")) flag->group("Language models");
  add_example(*command,
              "  tost explain run photo.jpg other.png --out report\n"
              "  tost explain run --out report --layers 1,6 --heads 2 --bound\n"
              "  tost explain lm --text \"ROMEO: But soft\" --out report");
  command->callback([command, flags, options] { run_explain(*command, *flags, *options); });
}

}  // namespace tost
