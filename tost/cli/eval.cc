// tost eval: scores a trained model on a data set.
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/eval_command.h"
#include "tost/cli/kind_flags.h"
#include "tost/cli/program.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/device.h"
#include "tost/store/run_layout.h"
#include "tost/train/config_form.h"

namespace tost {
using nlohmann::json;

namespace {

struct EvalKind {
  const char* kind;
  std::vector<CLI::Option*> (*add_options)(CLI::App&, EvalCommand&);
  void (*run)(const CLI::App&, EvalCommand&);
};
constexpr EvalKind kKinds[] = {{"vision", add_vision_eval_options, run_vision_eval},
                               {"language", add_language_eval_options, run_language_eval},
                               {"sequence", add_sequence_eval_options, run_sequence_eval}};

// Scores a run folder as its training was set: data, batch, precision and weights. False where
// --data is given, or nothing tells the data.
bool score_run_data(const CLI::App& app, const EvalCommand& options) {
  const std::filesystem::path file = std::filesystem::path(options.checkpoint) / kConfigFile;
  if (app.count("--data") > 0 || !is_plain_file(file)) return false;
  const json saved = read_config_file(file);
  const RunKind& kind = choose_run_kind(json::object(), &saved);
  if (!kind.score) return false;
  for (const char* flag : {"--data-format", "--holdout", "--batch", "--precision", "--ema",
                           "--per-class", "--engine", "--device"}) {
    if (app.count(flag) > 0) fail_usage(flag, " needs --data; without it the run's settings hold.");
  }
  set_threads(options.run.threads);
  const std::string split = options.split.empty() ? "test" : options.split;
  const Corruption& damage = options.corruption;
  json rule{{"split", split}, {"corruptions", nullptr}};
  if (damage.active()) {
    if (!kind.corruptible) fail_usage("--corrupt goes with image models; leave it out.");
    check_corruption(damage);
    rule["corruptions"] = {{"kinds", json::array({damage.kind})},
                           {"strengths", json::array({damage.strength})},
                           {"split", split}};
  }
  const auto found = kind.score(options.checkpoint, rule, stop_flag());
  if (!found) {
    std::cerr << "interrupted\n";
    set_exit_code(kExitInterrupted);
    return true;
  }
  json report = found->scores;
  if (damage.active()) {
    report = {{"top1", found->corrupted.at(damage.kind).front()},
              {"corruption", {{"kind", damage.kind}, {"strength", damage.strength}}}};
  }
  report["split"] = split;
  if (options.run.json) {
    print_json(report);
  } else {
    std::cout << "top1    " << format_text("%.2f", 100 * report["top1"].get<double>()) << " % ("
              << split << ")\n";
  }
  return true;
}

void run_eval(const CLI::App& app, const KindFlags& flags, EvalCommand& options) {
  const Kind& kind =
      kind_named(model_kind(options.checkpoint, options.ema ? Weights::kEma : Weights::kRaw));
  check_kind(kind, flags);
  if (score_run_data(app, options)) return;
  if (app.count("--batch") > 0 && options.batch < 1) {
    fail_usage("--batch is ", options.batch, "; at least 1 is needed.");
  }
  row_of_kind(kKinds, kind).run(app, options);
}

}  // namespace

json class_rows(const torch::Tensor& confusion, const std::vector<std::string>& classes,
                const char* items) {
  json rows = json::array();
  for (size_t k = 0; k < classes.size(); ++k) {
    const auto row = confusion[int64_t(k)];
    const int64_t count = row.sum().item<int64_t>(), right = row[int64_t(k)].item<int64_t>();
    rows.push_back({{"class", classes[k]},
                    {items, count},
                    {"top1", count > 0 ? json(double(right) / double(count)) : json()}});
  }
  return rows;
}

void print_share(const std::string& name, int64_t count, const json& top1) {
  std::cout << "  " << std::left << std::setw(24) << name << std::right << std::setw(8) << count;
  if (top1.is_number()) {
    std::cout << std::setw(9) << std::fixed << std::setprecision(2) << 100 * top1.get<double>()
              << " %";
  }
  std::cout << "\n";
}

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Score a trained model on a data set");
  auto options = std::make_shared<EvalCommand>();
  auto flags = std::make_shared<KindFlags>();
  add_model_argument(*command, "checkpoint", options->checkpoint);
  add_data_options(*command, options->data, false);
  command->get_option("--data")->description(
      "Folder of the data, a text or .jsonl file, a table of sequences, or generated: shapes, "
      "listops");
  command->add_option("--split", options->split,
                      "train, validation or test; of a single text also whole (default: test, for "
                      "text without one validation, of one file whole unless it is the run's own)");
  command->add_option(
      "--batch", options->batch,
      "Images (default 100), sequences (default 32), windows or passages at a time (recall above "
      "2,048 tokens: one)");
  command->add_option("--precision", options->precision,
                      "fp32 or bf16, of image models int8, of language models " +
                          list_of(integer_precisions(), " and ") + " (default: the file's)");
  command->add_flag("--ema", options->ema, "Use the averaged weights");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_device_option(*command, options->run);
  add_run_options(*command, options->run);
  command->add_flag("--per-class", options->per_class, "Accuracy of each class as well");
  command->add_flag("--engine,!--no-engine", options->engine,
                    "Through the inference engine, or layer by layer");
  for (const char* shared : {"--data-format", "--per-class"}) {
    command->get_option(shared)->group("Image and sequence models");
  }
  command->get_option("--engine")->group("Image models");
  for (const EvalKind& kind : kKinds) {
    (*flags)[kind.kind] = kind.add_options(*command, *options);
  }
  add_example(*command,
              "  tost eval run --data fashion-mnist\n"
              "  tost eval run --data fashion-mnist --corrupt noise --strength 3\n"
              "  tost eval run --data wikitext-2 --protocol official\n"
              "  tost eval run --data lambada --task lambada\n"
              "  tost eval run --task needle --lengths 1k,16k --depths 0,0.5,1 --plot needle.svg\n"
              "  tost eval run --data listops --min-tokens 1000 --max-tokens 3000");
  command->callback([command, flags, options] { run_eval(*command, *flags, *options); });
}

}  // namespace tost
