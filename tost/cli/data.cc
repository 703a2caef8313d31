// tost data: describes data sets, and writes generated sets to files.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/data/export.h"
#include "tost/io/named_sets.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int64_t kLastSeed = int64_t{1} << 40;  // as of tost train --data-seed

struct ShowFlags {
  RunOptions run;
  DataSpec data;
  SequenceSpec sequences;  // path and format are those of `data`
  bool sequence = false;   // pictures as pixels too
  std::string split;
};

struct MakeFlags {
  RunOptions run;
  DataSpec data;
  SequenceSpec sequences;
  std::string split = "train";
  std::string out;
  int64_t count = -1;
  bool masks = false;
  bool quiet = false;
};

template <class Set>
std::vector<int64_t> class_counts(const Set& set) {
  std::vector<int64_t> counts(set.classes().size());
  for (int64_t i = 0; i < set.size(); ++i) ++counts.at(static_cast<size_t>(set.label(i)));
  return counts;
}

json describe_pictures(const DataSpec& spec, const std::string& split) {
  const auto set = open_image_dataset(spec, split);
  return {{"split", split},
          {"images", set->size()},
          {"format", set->format()},
          {"channels", set->channels()},
          {"side", set->side()},
          {"classes", set->classes()},
          {"class_counts", class_counts(*set)},
          {"masks", set->has_mask()}};
}

// Statistics of the lengths of all sequences; a pair has the length of its longer sequence.
json describe_lengths(const SequenceDataset& set) {
  std::vector<int64_t> lengths(static_cast<size_t>(set.size()));
  for (int64_t i = 0; i < set.size(); ++i) lengths[static_cast<size_t>(i)] = set.length(i);
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](size_t percent) {
    return lengths[std::min(lengths.size() * percent / 100, lengths.size() - 1)];
  };
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return {{"min", at(0)},  {"q05", at(5)},   {"median", at(50)},
          {"q95", at(95)}, {"max", at(100)}, {"mean", sum / static_cast<double>(lengths.size())}};
}

json describe_sequences(const SequenceSpec& spec, const std::string& split) {
  const auto set = open_sequence_dataset(spec, split);
  const SequenceCoding coding = set->coding();
  return {{"split", split},
          {"sequences", set->size()},
          {"format", set->format()},
          {"coding", TOST_MEMBERS(coding, kind, vocab, pairs)},
          {"classes", set->classes()},
          {"class_counts", class_counts(*set)},
          {"tokens", describe_lengths(*set)}};
}

std::string summary(const json& split) {
  if (split.contains("coding")) {
    return cat(split["format"].get<std::string>(),
               split["coding"]["pairs"] == true ? ", pairs" : "", ", ", split["coding"]["vocab"],
               " ids (0 is padding)");
  }
  return cat(
      split["format"].get<std::string>(), ", ", split["channels"] == 1 ? "grey" : "RGB", ", ",
      split["side"] == 0 ? std::string("various sizes") : cat(split["side"], " x ", split["side"]),
      split["masks"] == true ? ", with object masks" : "");
}

void print_row(const std::string& title, const json& splits,
               const std::function<std::string(const json&)>& value) {
  std::cout << std::left << std::setw(24) << title << std::right;
  for (const json& split : splits) std::cout << std::setw(14) << value(split);
  std::cout << "\n";
}

void print_splits(const json& splits) {
  constexpr size_t kMaxClasses = 40;
  const json& first = splits.front();
  std::cout << summary(first) << "\n";
  print_row("class", splits, [](const json& split) { return split["split"].get<std::string>(); });
  const json& classes = first["classes"];
  for (size_t k = 0; k < std::min(classes.size(), kMaxClasses); ++k) {
    print_row(classes[k], splits,
              [&](const json& split) { return json_text(split["class_counts"][k]); });
  }
  if (classes.size() > kMaxClasses) {
    std::cout << "... and " << classes.size() - kMaxClasses << " more\n";
  }
  print_row("all", splits, [](const json& split) {
    return human_number(split.value("images", split.value("sequences", int64_t{0})));
  });
  if (!first.contains("tokens")) return;
  for (const char* key : {"min", "q05", "median", "mean", "q95", "max"}) {
    print_row(cat("tokens, ", key), splits, [&](const json& split) {
      return human_number(static_cast<int64_t>(split["tokens"][key].get<double>()));
    });
  }
}

// Throws a usage Error, with the names of all generated sets, if the path is missing.
void check_exists(const DataSpec& data) {
  if (data.format != "auto" || data.path == "shapes" || path_exists(data.path)) return;
  fail_data("There is no file or folder '", data.path,
            "'; give one, or a generated set: ", join(generated_sets(), ", "), ".",
            did_you_mean(data.path, generated_sets()), origin_of(data.path));
}

json describe_splits(ShowFlags& flags) {
  flags.sequences.path = flags.data.path;
  flags.sequences.format = flags.data.format;
  json splits = json::array();
  const bool sequences = flags.sequence || is_sequence_data(flags.sequences);
  if (!sequences) check_exists(flags.data);
  std::vector<std::string> names =
      sequences ? sequence_dataset_splits(flags.sequences) : image_dataset_splits(flags.data);
  if (!flags.split.empty()) names = {flags.split == "val" ? "validation" : flags.split};
  for (const std::string& name : names) {
    splits.push_back(sequences ? describe_sequences(flags.sequences, name)
                               : describe_pictures(flags.data, name));
  }
  return splits;
}

void run_show(ShowFlags& flags) {
  set_threads(flags.run.threads);
  const json splits = describe_splits(flags);
  flags.run.json ? print_json({{"data", flags.data.path}, {"splits", splits}})
                 : print_splits(splits);
}

void run_make_shapes(const MakeFlags& flags) {
  const auto dataset = open_image_dataset(flags.data, flags.split);
  ProgressLine progress(flags.run.json || flags.quiet);
  const auto files = export_image_folder(*dataset, flags.out, flags.count, flags.masks,
                                         export_options(progress, "pictures"));
  progress.finish();
  if (*stop_flag()) {
    return say_interrupted(cat("interrupted after ", files.size(), " pictures").c_str());
  }
  if (flags.run.json) return print_json({{"out", flags.out}, {"files", files}});
  std::cout << "wrote " << files.size() << (files.size() == 1 ? " picture to " : " pictures to ")
            << flags.out << "\n";
}

void run_make_listops(const MakeFlags& flags) {
  set_threads(flags.run.threads);
  ProgressLine progress(flags.run.json || flags.quiet);
  const SequenceExport result =
      export_listops(flags.sequences, flags.out, export_options(progress, "samples"));
  progress.finish();
  if (result.samples == 0) return say_interrupted("interrupted; nothing was written");
  if (flags.run.json) {
    return print_json({{"out", flags.out}, {"sequences", result.samples}, {"bytes", result.bytes}});
  }
  std::cout << "wrote " << human_number(result.samples) << " sequences ("
            << human_bytes(result.bytes) << ") to " << flags.out << "\n";
}

// Adds the flags for generated ListOps.
void add_listops_options(CLI::App& command, SequenceSpec& spec) {
  add_value(command, "--train-size", spec.train_size, "Generated training samples");
  add_value(command, "--test-size", spec.test_size,
            "Generated test samples, and as many for validation");
  command.add_option("--seed", spec.seed, "Another seed, other generated samples")
      ->check(CLI::Range(int64_t{0}, kLastSeed))
      ->capture_default_str();
  add_value(command, "--min-tokens", spec.min_tokens, "ListOps: longer than this");
  add_value(command, "--max-tokens", spec.max_tokens, "ListOps: shorter than this");
  add_value(command, "--max-depth", spec.max_depth, "ListOps: levels, digits included");
  add_value(command, "--max-arguments", spec.max_arguments, "ListOps: arguments of an operator");
}

void add_show(CLI::App& data) {
  CLI::App* command = data.add_subcommand("show", "Classes, counts and lengths of every split");
  auto flags = std::make_shared<ShowFlags>();
  add_data_options(*command, flags->data, true);
  command->get_option("--data")->description(
      "Folder or file of the data, or generated: shapes, listops");
  command->get_option("--data-format")
      ->description(
          "auto, idx, cifar10, cifar100, folder or shapes; of sequences listops, text, "
          "retrieval or pixels");
  command->add_flag("--sequence", flags->sequence, "Pictures as sequences of pixels");
  command->add_option("--split", flags->split, "Only this split");
  add_listops_options(*command, flags->sequences);
  add_value(*command, "--max-length", flags->sequences.max_length,
            "Cut sequences to this many tokens (0: not)");
  add_run_options(*command, flags->run);
  add_example(*command, "  tost data show --data fashion-mnist");
  command->callback([flags] { run_show(*flags); });
}

CLI::App* add_make(CLI::App& make, const char* name, const char* help, MakeFlags& flags) {
  CLI::App* command = make.add_subcommand(name, help);
  command->add_option("--out", flags.out, "Folder to write")->required();
  command->add_flag("--quiet", flags.quiet, "No progress");
  add_run_options(*command, flags.run);
  return command;
}

void add_make_shapes(CLI::App& make) {
  auto flags = std::make_shared<MakeFlags>();
  CLI::App* command =
      add_make(make, "shapes", "Textured shapes before clutter, as an image folder of PNG", *flags);
  add_value(*command, "--split", flags->split, "train, validation or test");
  command->add_option("--count", flags->count, "Pictures (default: the whole split)");
  add_value(*command, "--side", flags->data.side, "Height and width in pixels");
  add_value(*command, "--seed", flags->data.seed, "Another seed, other pictures");
  command->add_flag("--masks", flags->masks, "Also write object masks to OUT-masks");
  add_example(*command, "  tost data make shapes --split test --count 20 --out pictures");
  command->callback([flags] { run_make_shapes(*flags); });
}

void add_make_listops(CLI::App& make) {
  auto flags = std::make_shared<MakeFlags>();
  CLI::App* command = add_make(
      make, "listops", "Nested operations on digits, as tables of the Long Range Arena", *flags);
  flags->sequences.train_size = 96'000;
  flags->sequences.test_size = 2'000;
  add_listops_options(*command, flags->sequences);
  add_example(*command,
              "  tost data make listops --train-size 1000 --test-size 100 --out listops-small");
  command->callback([flags] { run_make_listops(*flags); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data =
      app.add_subcommand("data", "Look at data sets, write generated ones and token files");
  data->require_subcommand(1);
  add_show(*data);
  CLI::App* make = data->add_subcommand("make", "Write a generated data set as files");
  make->require_subcommand(1);
  add_make_listops(*make);
  add_make_shapes(*make);
  add_data_tokens_command(*data);
}

}  // namespace tost
