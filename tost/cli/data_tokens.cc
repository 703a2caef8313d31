// tost data tokens: writes a text as token files.
#include <iostream>

#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/io/text_export.h"

namespace tost {
namespace {

struct DataTokensFlags {
  RunOptions run;
  TextSpec text;
  std::string out;
  std::string format = "nanogpt";
  bool quiet = false;
};

nlohmann::json report(const TokenExport& result, const DataTokensFlags& options) {
  nlohmann::json splits = nlohmann::json::object();
  for (const auto& [split, tokens] : result.tokens) {
    splits[split] = {{"tokens", tokens}, {"bytes", result.bytes.at(split)}};
  }
  return {{"out", options.out},
          {"format", options.format},
          {"tokenizer", result.tokenizer->kind()},
          {"vocab_size", result.tokenizer->vocab_size()},
          {"splits", splits}};
}

void run_tokens(const DataTokensFlags& options) {
  set_threads(options.run.threads);
  ProgressLine progress(options.run.json || options.quiet);
  const TokenExportOptions wanted{export_options(progress, "bytes of text"),
                                  token_format_from_name(options.format)};
  const auto result = export_tokens(options.text, options.out, wanted);
  progress.finish();
  if (!result) return say_interrupted("interrupted; nothing was written");
  if (options.run.json) return print_json(report(*result, options));
  for (const auto& [split, tokens] : result->tokens) {
    std::cout << split << ": " << human_number(tokens) << " tokens of "
              << human_number(result->bytes.at(split)) << " bytes\n";
  }
  std::cout << "wrote " << options.out << " (" << result->tokenizer->kind() << ", "
            << human_number(result->tokenizer->vocab_size()) << " ids)\n";
}

}  // namespace

ExportOptions export_options(ProgressLine& progress, const char* unit) {
  const std::atomic<bool>* stop = stop_flag();
  return {[&progress, unit](int64_t done, int64_t total) { progress.update(done, total, unit); },
          [stop] { return stop->load(); }};
}

void add_data_tokens_command(CLI::App& data) {
  CLI::App* command = data.add_subcommand("tokens", "Write a text as files of 16-bit token ids");
  auto options = std::make_shared<DataTokensFlags>();
  command
      ->add_option("text", options->text.path, "Text file, or folder with input.txt or train.txt")
      ->required();
  command->add_option("--out", options->out, "Folder to write")->required();
  add_value(*command, "--tokenizer", options->text.tokenizer,
            "auto, bytes, chars, words:N, gpt2 or gpt2:FOLDER");
  add_value(*command, "--format", options->format, "nanogpt (ids alone) or llmc (with a header)");
  add_value(*command, "--holdout", options->text.holdout,
            "Last share of a text without a validation file that becomes one");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command, "  tost data tokens tinyshakespeare --tokenizer chars --out tokens");
  command->callback([options] { run_tokens(*options); });
}

}  // namespace tost
