// The part of tost explain that concerns language models.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/explain_command.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/run_config.h"
#include "tost/cli/terminal.h"
#include "tost/data/text_layout.h"
#include "tost/data/token_task.h"
#include "tost/kinds/language/answer_train_config.h"
#include "tost/kinds/language/explain_report.h"
#include "tost/kinds/language/tokenizer.h"
#include "tost/kinds/language/train_config.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

TextSpec spec_of(const ExplainCommand& command, const fs::path& model_file) {
  TextSpec spec;
  const auto config = run_config(language_train_form(), model_file);
  if (config) spec.holdout = config->holdout;
  spec.path = command.data.path;
  if (spec.path.empty() && config) spec.path = config->data;
  return spec;
}

// A split that is there and not empty; null otherwise.
std::shared_ptr<const TokenSource> open_part(const TextSpec& spec, const std::string& split,
                                             const LanguageInfo& info) {
  const TextLayout layout = find_text(spec.path, spec.holdout);
  const bool held_back = split == "validation" && spec.holdout > 0;
  if (layout.parts.count(split) == 0 && !held_back) return nullptr;
  if (!layout.tokens) {
    needed_tokenizer(info, cat("the text '", spec.path, "' cannot be read"));
  }
  return open_text_split(spec, split, info.tokenizer).tokens;
}

void open_data(const ExplainCommand& command, const TextSpec& spec, const LanguageInfo& info,
               TextExplainOptions& options) {
  options.data = spec.path;
  std::vector<std::string> held = {"validation", "test"};
  if (!command.split.empty()) held = {command.split == "val" ? "validation" : command.split};
  for (const auto& split : held) {
    if (options.held != nullptr) break;
    options.held = command.split.empty() ? open_part(spec, split, info)
                                         : open_text_split(spec, split, info.tokenizer).tokens;
    options.held_split = split;
  }
  if (command.split != "train") options.train = open_part(spec, "train", info);
}

// The folder of the task of tokens (token_task.h) that --data gives or the run was trained on; ""
// where there is none.
std::string task_folder(const ExplainCommand& command, const fs::path& model_file) {
  std::string folder = command.data.path;
  if (folder.empty()) {
    const auto config = run_config(answer_train_form(), model_file);
    if (config) folder = config->data;
  }
  return is_token_task(folder) ? folder : "";
}

// The first sample of the split, or of the first one that is there.
Passage passage_of_task(const ExplainCommand& command, const LoadedLanguage& loaded,
                        const std::string& folder) {
  std::string split = command.split;
  for (const char* name : {"validation", "test", "train"}) {
    if (split.empty() && is_plain_file(fs::path(folder) / (std::string(name) + ".safetensors")))
      split = name;
  }
  const torch::Tensor ids = TokenTaskData(folder, split).batch(0, {0}).ids[0].to(torch::kInt32);
  const int32_t* first = ids.const_data_ptr<int32_t>();
  const TokenSource source({first, first + ids.numel()}, folder);
  return passage_of_tokens(loaded.info, source,
                           cat("the first sample of '", folder, "' (", split, ")"),
                           command.max_tokens);
}

void add_data(const ExplainCommand& command, const LoadedLanguage& loaded,
              TextExplainOptions& options) {
  if (!task_folder(command, loaded.file).empty()) {
    options.no_data =
        "Statistics over windows are left out: the data are samples of a task, which are not text.";
    return;
  }
  const TextSpec spec = spec_of(command, loaded.file);
  const std::string missing = open_known_data(
      command, !spec.path.empty(), [&] { open_data(command, spec, loaded.info, options); });
  if (missing.empty()) return;
  options.train = options.held = nullptr;
  options.no_data = "Statistics over windows are left out: " + missing;
}

Passage passage_of(const CLI::App& app, const ExplainCommand& command, const LoadedLanguage& loaded,
                   const TextExplainOptions& options) {
  const bool given = app.count("--text") > 0;
  if (command.images.size() + size_t(given) > 1) {
    fail_usage("One passage is shown; give one file, or --text alone.");
  }
  if (given) return passage_of_text(loaded.info, command.text, "--text", command.max_tokens);
  if (!command.images.empty()) {
    const std::string& file = command.images.front();
    if (file != "-") return passage_of_file(loaded.info, file, command.max_tokens);
    return passage_of_stream(loaded.info, std::cin, "the standard input", command.max_tokens);
  }
  const std::string task = task_folder(command, loaded.file);
  if (!task.empty()) return passage_of_task(command, loaded, task);
  const auto& source = options.held != nullptr ? options.held : options.train;
  if (source == nullptr) {
    fail_usage("There is no passage to show: the run's data cannot be found; give --text, a file, ",
               "or --data.");
  }
  return passage_of_tokens(loaded.info, *source,
                           cat("the beginning of '", options.data, "' (",
                               options.held != nullptr ? options.held_split : "train", ")"),
                           command.max_tokens);
}

void print_result(const TextReport& report, const ExplainCommand& command) {
  const auto& loss = report.trace.loss;
  const auto tokens = int64_t(report.passage.ids.size());
  std::printf("passage  %s token%s of %s", human_number(tokens).c_str(), tokens == 1 ? "" : "s",
              report.passage.source.c_str());
  if (loss.numel() > 0) {
    const double mean = loss.mean().item<double>();
    std::printf(", loss %.3f, perplexity %.2f", plain_nan(mean), plain_nan(std::exp(mean)));
  }
  std::printf("\n");
  for (const auto& note : report.passage.notes) std::printf("note     %s\n", note.c_str());
  for (const auto& note : report.left_out) std::printf("note     %s\n", note.c_str());
  std::printf("%s\n", (fs::path(command.out) / "index.html").c_str());
  std::fflush(stdout);
}

}  // namespace

std::vector<CLI::Option*> add_text_explain_options(CLI::App& app, ExplainCommand& command) {
  const std::vector<CLI::Option*> options = {
      app.add_option("--text", command.text, "The passage to show (default: of the data)"),
      add_value(app, "--max-tokens", command.max_tokens, "Of the passage"),
      add_tokenizer_option(app, command.tokenizer)};
  for (CLI::Option* option : options) option->group("Language models");
  return options;
}

void run_text_explain(const CLI::App& app, ExplainCommand& command) {
  LoadedLanguage loaded =
      load_language_file(command.checkpoint, command.ema ? Weights::kEma : Weights::kRaw);
  choose_tokenizer({.name = command.tokenizer, .data = command.data.path}, loaded);
  loaded.model->to(device_from_name(command.run.device));
  TextExplainOptions options;
  options.layers = command.layers;
  options.heads = command.heads;
  options.samples = command.samples;
  options.all_samples = app.count("--samples") > 0;
  options.bound = command.bound;
  options.stop = stop_flag();
  ProgressLine progress(command.quiet || command.run.json);
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    progress.update(done, total, what);
  };
  add_data(command, loaded, options);
  const Passage passage = passage_of(app, command, loaded, options);
  const auto report = explain_text(loaded, passage, options);
  progress.finish();
  if (!report) {
    std::cerr << "interrupted\n";
    return set_exit_code(kExitInterrupted);
  }
  finish_report(to_json(*report), command);
  if (command.run.json) return;
  print_result(*report, command);
}

}  // namespace tost
