#include "tost/cli/data_sequences.h"

#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/cli/terminal.h"
#include "tost/data/sequence_export.h"
#include "tost/data/sequence_statistics.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

constexpr int64_t kLastSeed = int64_t{1} << 40;  // as of tost train --data-seed

struct Split {
  std::string name;
  std::unique_ptr<SequenceDataset> data;
  SequenceStatistics statistics;
};

std::vector<Split> open_splits(const SequenceSpec& spec, const std::string& wanted) {
  std::vector<Split> splits;
  for (const std::string& name : sequence_dataset_splits(spec)) {
    if (!wanted.empty() && name != (wanted == "val" ? "validation" : wanted)) continue;
    auto data = open_sequence_dataset(spec, name);
    SequenceStatistics statistics = sequence_statistics({data.get()});
    splits.push_back({name, std::move(data), std::move(statistics)});
  }
  if (splits.empty()) open_sequence_dataset(spec, wanted);  // says what there is
  return splits;
}

nlohmann::json to_json(const SequenceQuantity& quantity) {
  return {{"name", quantity.name},
          {"mean", quantity.mean()},
          {"deviation", quantity.deviation()},
          {"min", quantity.quantile(0)},
          {"q05", quantity.quantile(0.05)},
          {"median", quantity.quantile(0.5)},
          {"q95", quantity.quantile(0.95)},
          {"max", quantity.quantile(1)}};
}

nlohmann::json to_json(const Split& split) {
  const SequenceCoding coding = split.data->coding();
  nlohmann::json quantities = nlohmann::json::array();
  for (const SequenceQuantity& quantity : split.statistics.quantities) {
    quantities.push_back(to_json(quantity));
  }
  return {{"split", split.name},
          {"sequences", split.statistics.samples},
          {"format", split.data->format()},
          {"coding", TOST_MEMBERS(coding, kind, vocab, pairs)},
          {"classes", split.statistics.classes},
          {"class_counts", split.statistics.class_counts},
          {"quantities", quantities}};
}

std::string percent(int64_t part, int64_t whole) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1)
      << 100.0 * static_cast<double>(part) / static_cast<double>(whole) << " %";
  return out.str();
}

// Four significant digits; integers and large numbers without a fraction.
std::string number(double value) {
  std::ostringstream out;
  if (value == std::floor(value) || std::abs(value) >= 1000) {
    out << std::fixed << std::setprecision(0) << value;
  } else {
    out << std::setprecision(4) << value;
  }
  return out.str();
}

void print_classes(const std::vector<Split>& splits) {
  constexpr size_t kMost = 40;
  const auto& classes = splits.front().statistics.classes;
  std::cout << std::left << std::setw(24) << "class" << std::right;
  for (const Split& split : splits) std::cout << std::setw(14) << split.name;
  for (size_t k = 0; k < std::min(classes.size(), kMost); ++k) {
    std::cout << "\n" << std::left << std::setw(24) << classes[k] << std::right;
    for (const Split& split : splits) {
      std::cout << std::setw(14)
                << percent(split.statistics.class_counts[k], split.statistics.samples);
    }
  }
  if (classes.size() > kMost) std::cout << "\n... and " << classes.size() - kMost << " more";
  std::cout << "\n" << std::left << std::setw(24) << "all" << std::right;
  for (const Split& split : splits) {
    std::cout << std::setw(14) << human_number(split.statistics.samples);
  }
  std::cout << "\n";
}

void print_shares(const SequenceQuantity& quantity) {
  std::cout << "  " << quantity.name << ":";
  for (size_t i = 0; i < quantity.values.size();) {
    size_t end = i;
    while (end < quantity.values.size() && quantity.values[end] == quantity.values[i]) ++end;
    std::cout << "  " << quantity.values[i] << " "
              << percent(static_cast<int64_t>(end - i), std::ssize(quantity.values));
    i = end;
  }
  std::cout << "\n";
}

void print_quantities(const Split& split) {
  std::cout << "\n" << std::left << std::setw(22) << split.name << std::right;
  for (const char* head : {"min", "5 %", "median", "mean", "95 %", "max", "deviation"}) {
    std::cout << std::setw(11) << head;
  }
  std::cout << "\n";
  for (const SequenceQuantity& quantity : split.statistics.quantities) {
    std::cout << std::left << std::setw(22) << quantity.name << std::right;
    for (const double value :
         {quantity.quantile(0), quantity.quantile(0.05), quantity.quantile(0.5), quantity.mean(),
          quantity.quantile(0.95), quantity.quantile(1), quantity.deviation()}) {
      std::cout << std::setw(11) << number(value);
    }
    std::cout << "\n";
  }
  for (const SequenceQuantity& quantity : split.statistics.quantities) {
    if (quantity.name == "depth") print_shares(quantity);
  }
}

void print_splits(const std::vector<Split>& splits) {
  const SequenceCoding coding = splits.front().data->coding();
  std::cout << splits.front().data->format() << (coding.pairs ? ", pairs" : "") << ", "
            << coding.vocab << " ids (0 is padding), " << splits.front().statistics.classes.size()
            << " classes\n";
  print_classes(splits);
  for (const Split& split : splits) print_quantities(split);
}

SequenceStatistics pooled(const std::vector<Split>& splits) {
  std::vector<const SequenceDataset*> parts;
  for (const Split& split : splits) parts.push_back(split.data.get());
  return parts.size() == 1 ? splits.front().statistics : sequence_statistics(parts);
}

nlohmann::json comparison(const SequenceStatistics& ours, const SequenceStatistics& theirs) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SequenceQuantity& a : ours.quantities) {
    for (const SequenceQuantity& b : theirs.quantities) {
      if (a.name != b.name) continue;
      rows.push_back({{"name", a.name},
                      {"mean", a.mean()},
                      {"deviation", a.deviation()},
                      {"against_mean", b.mean()},
                      {"against_deviation", b.deviation()},
                      {"distance", distribution_distance(a, b)},
                      {"by_chance", distance_by_chance(a.values.size(), b.values.size())}});
    }
  }
  return {{"sequences", ours.samples},
          {"against_sequences", theirs.samples},
          {"class_distance", class_distance(ours, theirs)},
          {"class_distance_by_chance", class_distance_by_chance(ours, theirs)},
          {"quantities", rows}};
}

void print_comparison(const nlohmann::json& table, const SequenceOptions& options) {
  const auto count = [&](const char* name) { return human_number(table[name].get<int64_t>()); };
  std::cout << options.spec.path << " (" << count("sequences") << ") against " << options.against
            << " (" << count("against_sequences") << ")\n\n"
            << std::left << std::setw(22) << "" << std::right;
  for (const char* head : {"mean", "deviation", "against", "deviation", "distance", "by chance"}) {
    std::cout << std::setw(11) << head;
  }
  std::cout << "\n";
  for (const auto& row : table["quantities"]) {
    std::cout << std::left << std::setw(22) << row["name"].get<std::string>() << std::right;
    for (const char* name :
         {"mean", "deviation", "against_mean", "against_deviation", "distance", "by_chance"}) {
      std::cout << std::setw(11) << number(row[name].get<double>());
    }
    std::cout << "\n";
  }
  std::cout
      << "\nclasses: distance " << number(table["class_distance"].get<double>())
      << " (half the sum of the differences of shares), by chance "
      << number(table["class_distance_by_chance"].get<double>()) << " on average\n"
      << "distance: the largest difference of the distribution functions; by chance: what one "
         "of twenty pairs\nof samples of these sizes from one distribution exceeds\n";
}

void add_listops_options(CLI::App& command, SequenceSpec& spec) {
  add_value(command, "--min-tokens", spec.min_tokens, "ListOps: longer than this");
  add_value(command, "--max-tokens", spec.max_tokens, "ListOps: shorter than this");
  add_value(command, "--max-depth", spec.max_depth, "ListOps: levels, digits included");
  add_value(command, "--max-arguments", spec.max_arguments, "ListOps: arguments of an operator");
}

struct MakeOptions {
  RunOptions run;
  SequenceSpec spec;
  std::string out;
  bool quiet = false;
};

void run_make(const MakeOptions& options) {
  set_threads(options.run.threads);
  ProgressLine progress(options.run.json || options.quiet);
  SequenceExportOptions wanted;
  wanted.progress = [&](int64_t done, int64_t total) { progress.update(done, total, "samples"); };
  const std::atomic<bool>* stop = stop_flag();
  wanted.stop = [stop] { return stop->load(); };
  const SequenceExport result = export_sequences(options.spec, options.out, wanted);
  progress.finish();
  if (result.samples == 0) {
    std::cerr << "interrupted; nothing was written\n";
    return set_exit_code(kExitInterrupted);
  }
  if (options.run.json) {
    return print_json(
        {{"out", options.out}, {"sequences", result.samples}, {"bytes", result.bytes}});
  }
  std::cout << "wrote " << human_number(result.samples) << " sequences ("
            << human_bytes(result.bytes) << ") to " << options.out << "\n";
}

void add_make_one(CLI::App& make, const std::string& name, const std::string& help,
                  int64_t train_size, int64_t test_size) {
  CLI::App* command = make.add_subcommand(name, help);
  auto options = std::make_shared<MakeOptions>();
  options->spec.path = name;
  options->spec.train_size = train_size;
  options->spec.test_size = test_size;
  SequenceSpec& spec = options->spec;
  command->add_option("--out", options->out, "Folder to write")->required();
  add_value(*command, "--train-size", spec.train_size, "Training samples");
  add_value(*command, "--test-size", spec.test_size, "Test samples, and as many for validation");
  command->add_option("--seed", spec.seed, "Another seed, other samples")
      ->check(CLI::Range(int64_t{0}, kLastSeed))
      ->capture_default_str();
  add_listops_options(*command, spec);
  command->add_flag("--quiet", options->quiet, "No progress");
  add_run_options(*command, options->run);
  add_example(*command, "  tost data make " + name + " --train-size 1000 --test-size 100 --out " +
                            name + "-small");
  command->callback([options] { run_make(*options); });
}

}  // namespace

void add_sequence_options(CLI::App& command, SequenceSpec& spec) {
  add_value(command, "--train-size", spec.train_size, "Training samples of a generated set");
  add_value(command, "--test-size", spec.test_size, "Its test samples, and as many for validation");
  command.add_option("--seed", spec.seed, "Another seed, another generated set")
      ->check(CLI::Range(int64_t{0}, kLastSeed))
      ->capture_default_str();
  add_listops_options(command, spec);
  add_value(command, "--contour-length", spec.contour_length,
            "Pathfinder: which level of a folder (6 easy, 9 intermediate, 14 hard)");
  add_value(command, "--max-length", spec.max_length, "Cut sequences to this many tokens (0: not)");
}

bool means_sequences(SequenceOptions& options, const DataSpec& data) {
  options.spec.path = data.path;
  options.spec.format = data.format;
  return options.sequence || is_sequence_data(options.spec);
}

void show_sequences(const SequenceOptions& options, const RunOptions& run) {
  set_threads(run.threads);
  const std::vector<Split> splits = open_splits(options.spec, options.split);
  nlohmann::json report = {{"data", options.spec.path}, {"splits", nlohmann::json::array()}};
  for (const Split& split : splits) report["splits"].push_back(to_json(split));
  if (!options.against.empty()) {
    SequenceSpec other = options.spec;
    other.path = options.against;
    other.format = "auto";
    report["against"] = comparison(pooled(splits), pooled(open_splits(other, "")));
    if (!run.json) return print_comparison(report["against"], options);
  }
  run.json ? print_json(report) : print_splits(splits);
}

void add_make_sequences(CLI::App& make) {
  add_make_one(make, "listops", "Nested operations on digits, as tables of the Long Range Arena",
               96'000, 2'000);
}

}  // namespace tost
