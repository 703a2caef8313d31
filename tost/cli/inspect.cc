// tost inspect: describes a weight file or checkpoint without executing anything in it.
#include "tost/engine/inspect.h"

#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using Json = nlohmann::ordered_json;

struct InspectCommand {
  std::string path;
  InspectOptions inspect;
  bool json = false;
  bool all = false;
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// The beginning of a long value; the whole value if `all` is set.
std::string short_text(const Json& value, bool all) {
  constexpr size_t kMost = 200;
  std::string text = text_of(value);
  if (all || text.size() <= kMost) return text;
  size_t end = kMost;
  while ((text[end] & 0xc0) == 0x80) --end;  // at the start of a character
  return cat(text.substr(0, end), "… (", text.size(), " bytes)");
}

std::string label(const std::string& name) {
  return name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ');
}

void print_tree(const Json& value, int indent, bool all) {
  for (const auto& [key, item] : value.items()) {
    std::cout << std::string(static_cast<size_t>(indent), ' ') << key;
    if ((item.is_object() && !item.empty())) {
      std::cout << "\n";
      print_tree(item, indent + 2, all);
    } else {
      std::cout << "  " << short_text(item, all) << "\n";
    }
  }
}

// Whether the file holds an optimiser's state, with two or three times the tensors of the model.
bool is_optimizer_file(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return name == kOptimizerFile || starts_with(name, "optimizer-");
}

void print_models(const Json& models) {
  for (const Json& model : models) {
    std::cout << label("model");
    std::cout << model["family"].get<std::string>() << ":";
    const char* separator = " ";
    for (const auto& [key, value] : model.items()) {
      if (key == "prefix" || key == "family" || value.is_null()) continue;
      std::cout << separator << key << " " << text_of(value);
      separator = ", ";
    }
    const auto prefix = model["prefix"].get<std::string>();
    std::cout << (prefix.empty() ? "" : "   (" + prefix + "…)") << "\n";
  }
}

// Tensors on one line: single numbers whose names begin alike, such as step counts.
struct TensorGroup {
  std::string name;
  std::vector<const Json*> rows;
};

std::vector<TensorGroup> grouped(const Json& tensors, bool single_numbers) {
  std::vector<TensorGroup> groups;
  for (const Json& row : tensors) {
    const auto& name = row["name"].get_ref<const std::string&>();
    const std::string begin = name.substr(0, name.find('.') + 1);
    const bool joins = single_numbers && row["shape"].empty() && !row.contains("shares") &&
                       !begin.empty() && begin != name;
    const std::string shown = joins ? begin + "*" : name;
    if (!joins || groups.empty() || groups.back().name != shown ||
        (*groups.back().rows.front())["dtype"] != row["dtype"]) {
      groups.push_back({shown, {}});
    }
    groups.back().rows.push_back(&row);
  }
  for (TensorGroup& group : groups) {
    if (group.rows.size() == 1) group.name = (*group.rows.front())["name"];
  }
  return groups;
}

void print_group(const TensorGroup& group, size_t width) {
  const Json& row = *group.rows.front();
  int64_t bytes = 0;
  for (const Json* one : group.rows) bytes += (*one)["bytes"].get<int64_t>();
  std::cout << "  " << std::left << std::setw(static_cast<int>(width)) << group.name << "  "
            << std::setw(9) << row["dtype"].get<std::string>() << std::setw(18)
            << json_text(row["shape"]) << std::right << std::setw(10) << human_bytes(bytes);
  if (group.rows.size() > 1) std::cout << "  " << group.rows.size() << " tensors";
  if (row.contains("nan")) {
    std::cout << "  min " << text_of(row["min"]) << " max " << text_of(row["max"]) << " NaN "
              << row["nan"] << " inf " << row["inf"];
  }
  if (row.contains("strides")) std::cout << "  strides " << json_text(row["strides"]);
  if (row.contains("shares")) std::cout << "  shares storage " << text_of(row["shares"]);
  std::cout << "\n";
}

// Prints tensors in groups; with statistics, prints each tensor on a separate line.
void print_tensors(const Json& tensors) {
  if (tensors.empty()) return;
  const auto groups = grouped(tensors, !tensors.front().contains("nan"));
  size_t width = 4;
  for (const TensorGroup& group : groups) {
    width = std::max(width, std::min<size_t>(60, group.name.size()));
  }
  std::cout << "tensors\n";
  for (const TensorGroup& group : groups) print_group(group, width);
}

void print_classes(const Json& classes) {
  if (classes.empty()) return;
  std::cout << "classes\n";
  for (const bool harmless : {true, false}) {
    for (const Json& row : classes) {
      if (row["harmless"] != harmless) continue;
      std::cout << "  " << (harmless ? "harmless  " : "UNKNOWN   ") << text_of(row["name"]) << "  ("
                << row["calls"] << " calls, first named at byte " << row["byte"] << ")\n";
    }
  }
}

void print_part(const Json& report, const char* part, bool all) {
  if (!report.contains(part)) return;
  if (!report[part].is_object()) {
    std::cout << label(part) << short_text(report[part], all) << "\n";
    return;
  }
  std::cout << part << "\n";
  print_tree(report[part], 2, all);
}

void print_file(const Json& report, bool all, bool tensors = true) {
  std::cout << label("file") << text_of(report["file"]) << "\n"
            << label("format") << text_of(report["format"]);
  if (report.contains("version")) std::cout << ", version " << text_of(report["version"]);
  if (report.contains("shards")) std::cout << ", " << report["shards"] << " files";
  std::cout << ", " << human_bytes(report["bytes"].get<int64_t>()) << "\n";
  if (report.contains("tensors")) {
    std::cout << label("holds") << report["tensors"].size() << " tensors, "
              << human_number(report["elements"].get<int64_t>()) << " elements\n";
  }
  if (report.contains("models")) print_models(report["models"]);
  print_part(report, "metadata", all);
  if (report.contains("classes")) print_classes(report["classes"]);
  if (!report.contains("tensors")) return;
  if (tensors) {
    print_tensors(report["tensors"]);
  } else {
    std::cout << label("tensors") << "listed by --all\n";
  }
}

void print_folder(const Json& report, bool all) {
  std::cout << label("checkpoint") << text_of(report["checkpoint"]) << "\n";
  print_part(report, "arguments", all);
  for (const Json& file : report["files"]) {
    std::cout << "\n";
    print_file(file, all, all || !is_optimizer_file(text_of(file["file"])));
    if (file.contains("error")) std::cout << label("error") << text_of(file["error"]) << "\n";
  }
}

// Prints the warnings of all files, and sets the exit status.
void conclude(const Json& files) {
  for (const Json& report : files) {
    if (report["suspicious"] != true) continue;
    std::cerr << "WARNING: " << text_of(report["file"])
              << " names classes or functions that no checkpoint needs (UNKNOWN above). "
                 "torch.load(weights_only=False) would run them; tost never does.\n";
    set_exit_code(kExitData);
  }
  size_t refused = 0;
  std::string first;
  for (const Json& report : files) {
    if (!report.contains("error")) continue;
    if (refused++ == 0) first = text_of(report["error"]);
  }
  if (refused > 1)
    fail_data(refused, " of ", files.size(), " files cannot be used; the first: ", first);
  if (refused == 1) fail_data(first);
}

// Inspects a file or folder; with `--json` an Error becomes an object as well.
Json inspect_any(const InspectCommand& options) {
  try {
    return inspect(options.path, options.inspect);
  } catch (const Error& error) {
    if (!options.json) throw;
    return inspect_refusal(options.path, error);
  }
}

void run_inspect(const InspectCommand& options) {
  const Json report = inspect_any(options);
  const bool folder = report.contains("files");
  if (options.json) {
    std::cout << json_text(report, 2) << std::endl;
  } else {
    folder ? print_folder(report, options.all) : print_file(report, options.all);
  }
  std::cout.flush();
  conclude(folder ? report["files"] : Json::array({report}));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "inspect", "What a weight file or checkpoint holds, without running any of it");
  auto options = std::make_shared<InspectCommand>();
  add_model_argument(*command, "file", options->path);
  command->get_option("file")->description(
      "A .pth, .pt or .safetensors file, an index of shards, a run or checkpoint folder, or a "
      "shipped model (tost models)");
  command->add_flag("--stats", options->inspect.statistics,
                    "Least and greatest value, NaN and infinities of every tensor");
  command->add_flag("--all", options->all,
                    "Long values whole, and the tensors of an optimizer's state");
  command->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  add_example(*command, "  tost inspect checkpoint.pth --stats");
  command->callback([options] { run_inspect(*options); });
}

}  // namespace tost
