// tost data: what a data set holds, how it looks, and generated sets written out as files.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/data_sequences.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/data/export.h"
#include "tost/data/named_sets.h"
#include "tost/data/sequence_pixels.h"

namespace tost {
namespace {

struct DataCommandFlags {
  RunOptions run;
  DataSpec data;
  SequenceOptions sequences;
  std::string split = "train";
  std::string out;
  int64_t count = -1;
  int64_t columns = 10;
  int64_t scale = 2;
  bool masks = false;
  bool quiet = false;
};

nlohmann::json describe_split(const DataCommandFlags& options, const std::string& split) {
  const auto dataset = open_image_dataset(options.data, split);
  std::vector<int64_t> counts(dataset->classes().size());
  for (int64_t i = 0; i < dataset->size(); ++i) ++counts.at(static_cast<size_t>(dataset->label(i)));
  return {{"split", split},
          {"images", dataset->size()},
          {"format", dataset->format()},
          {"channels", dataset->channels()},
          {"side", dataset->side()},
          {"classes", dataset->classes()},
          {"class_counts", counts},
          {"masks", dataset->has_mask()}};
}

void print_description(const nlohmann::json& splits) {
  const auto& first = splits.front();
  std::cout << first["format"].get<std::string>() << ", "
            << (first["channels"] == 1 ? "grey" : "RGB") << ", "
            << (first["side"] == 0 ? std::string("various sizes")
                                   : cat(first["side"], " x ", first["side"]))
            << (first["masks"].get<bool>() ? ", with object masks" : "") << "\n"
            << std::left << std::setw(24) << "class" << std::right;
  for (const auto& split : splits) std::cout << std::setw(12) << split["split"].get<std::string>();
  std::cout << "\n";
  const auto classes = first["classes"].get<std::vector<std::string>>();
  for (size_t k = 0; k < classes.size(); ++k) {
    std::cout << std::left << std::setw(24) << classes[k] << std::right;
    for (const auto& split : splits)
      std::cout << std::setw(12) << split["class_counts"][k].get<int64_t>();
    std::cout << "\n";
  }
  std::cout << std::left << std::setw(24) << "all" << std::right;
  for (const auto& split : splits)
    std::cout << std::setw(12) << human_number(split["images"].get<int64_t>());
  std::cout << "\n";
}

// What the readers of pictures would say names no sequences.
void check_exists(const DataSpec& data) {
  if (data.format != "auto" || data.path == "shapes" || path_exists(data.path)) return;
  fail_data("There is no file or folder '", data.path,
            "'; give one, or a generated set: ", join(generated_sets(), ", "), ".",
            did_you_mean(data.path, generated_sets()), origin_of(data.path));
}

void run_show(DataCommandFlags& options) {
  if (means_sequences(options.sequences, options.data)) {
    return show_sequences(options.sequences, options.run);
  }
  check_exists(options.data);
  if (!options.sequences.against.empty()) {
    fail_usage("--against compares sequences; add --sequence to compare pictures as pixels.");
  }
  nlohmann::json splits = nlohmann::json::array();
  for (const std::string& split : image_dataset_splits(options.data))
    splits.push_back(describe_split(options, split));
  options.run.json ? print_json({{"data", options.data.path}, {"splits", splits}})
                   : print_description(splits);
}

std::unique_ptr<ImageDataset> pictures_for_sheet(DataCommandFlags& options) {
  if (!means_sequences(options.sequences, options.data)) {
    check_exists(options.data);
    return open_image_dataset(options.data, options.split);
  }
  return pictures_of(open_sequence_dataset(options.sequences.spec, options.split));
}

void run_sheet(DataCommandFlags& options) {
  check_output_ending("out", options.out, {".png"});
  const auto dataset = pictures_for_sheet(options);
  if (options.count > dataset->size()) {
    fail_usage("--count is ", options.count, ", but the ", options.split, " split has ",
               human_number(dataset->size()), " pictures.");
  }
  const int64_t rows_of_six = std::clamp<int64_t>(options.columns, 0, dataset->size()) * 6;
  const int64_t count = options.count < 0 ? std::min(rows_of_six, dataset->size()) : options.count;
  std::vector<int64_t> indices(static_cast<size_t>(std::max<int64_t>(0, count)));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  write_png(options.out,
            contact_sheet(*dataset, indices, options.columns, options.scale, options.masks));
  if (options.run.json) return print_json({{"sheet", options.out}, {"images", count}});
  std::cout << "wrote " << options.out << " (" << count << " pictures of " << options.split
            << ")\n";
}

void run_make_shapes(const DataCommandFlags& options) {
  const auto dataset = open_image_dataset(options.data, options.split);
  ProgressLine progress(options.run.json || options.quiet);
  ExportOptions wanted;
  wanted.count = options.count;
  wanted.masks = options.masks;
  wanted.progress = [&](int64_t done, int64_t total) { progress.update(done, total, "pictures"); };
  const std::atomic<bool>* stop = stop_flag();
  wanted.stop = [stop] { return stop->load(); };
  const auto files = export_image_folder(*dataset, options.out, wanted);
  progress.finish();
  if (stop->load()) {
    std::cerr << "interrupted after " << files.size() << " pictures\n";
    return set_exit_code(kExitInterrupted);
  }
  if (options.run.json) return print_json({{"out", options.out}, {"files", files}});
  std::cout << "wrote " << files.size() << (files.size() == 1 ? " picture to " : " pictures to ")
            << options.out << "\n";
}

void add_show(CLI::App& data) {
  CLI::App* command = data.add_subcommand("show", "Classes, counts and lengths of every split");
  auto options = std::make_shared<DataCommandFlags>();
  add_data_options(*command, options->data, true);
  command->get_option("--data")->description(
      "Folder or file of the data, or generated: shapes, listops");
  command->get_option("--data-format")
      ->description(
          "auto, idx, cifar10, cifar100, folder or shapes; of sequences listops, text, "
          "retrieval, pixels or pathfinder");
  command->add_flag("--sequence", options->sequences.sequence, "Pictures as sequences of pixels");
  command->add_option("--split", options->sequences.split, "Of sequences: this split alone");
  command->add_option("--against", options->sequences.against,
                      "Of sequences: compare the statistics with those of this data");
  add_sequence_options(*command, options->sequences.spec);
  add_run_options(*command, options->run);
  add_example(*command,
              "  tost data show --data fashion-mnist\n"
              "  tost data show --data listops --against listops/lra_basic_test.tsv");
  command->callback([options] { run_show(*options); });
}

void add_sheet(CLI::App& data) {
  CLI::App* command = data.add_subcommand("sheet", "A contact sheet of the first pictures as PNG");
  auto options = std::make_shared<DataCommandFlags>();
  add_data_options(*command, options->data, true);
  command->get_option("--data")->description("Folder of the pictures, or generated: shapes");
  command
      ->add_option("--out", options->out, "PNG file to write (x.png); one that exists is replaced")
      ->required();
  add_value(*command, "--split", options->split, "train, validation or test");
  command->add_option("--count", options->count, "Pictures (default: six rows)");
  add_value(*command, "--columns", options->columns, "Pictures a row, at most 10,000");
  add_value(*command, "--scale", options->scale, "Enlargement, 1 to 64");
  command->add_flag("--masks", options->masks, "Show each picture's mask next to it");
  add_sequence_options(*command, options->sequences.spec);
  add_run_options(*command, options->run);
  add_example(*command, "  tost data sheet --data shapes --masks --out shapes.png");
  command->callback([options] { run_sheet(*options); });
}

void add_make(CLI::App& data) {
  CLI::App* make = data.add_subcommand("make", "Write a generated data set as files");
  make->require_subcommand(1);
  add_make_sequences(*make);
  CLI::App* command =
      make->add_subcommand("shapes", "Textured shapes before clutter, as an image folder of PNG");
  auto options = std::make_shared<DataCommandFlags>();
  command->add_option("--out", options->out, "Folder to write")->required();
  add_value(*command, "--split", options->split, "train, validation or test");
  command->add_option("--count", options->count, "Pictures (default: the whole split)");
  add_value(*command, "--side", options->data.side, "Height and width in pixels");
  add_value(*command, "--seed", options->data.seed, "Another seed, other pictures");
  command->add_flag("--masks", options->masks, "Also write object masks to OUT-masks");
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command, "  tost data make shapes --split test --count 20 --out pictures");
  command->callback([options] { run_make_shapes(*options); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data =
      app.add_subcommand("data", "Look at data sets, write generated ones and token files");
  data->require_subcommand(1);
  add_show(*data);
  add_sheet(*data);
  add_make(*data);
  add_data_tokens_command(*data);
}

}  // namespace tost
