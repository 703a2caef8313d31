// tost inspect: what a weight file or checkpoint is and holds, without running anything of it.
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/shards_inspect.h"
#include "tost/io/torch_inspect.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/store/manifest.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct InspectCommand {
  std::string path;
  InspectOptions inspect;
  bool json = false;
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string label(const std::string& name) {
  return name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ');
}

void print_tree(const Json& value, int indent) {
  for (const auto& [key, item] : value.items()) {
    std::cout << std::string(static_cast<size_t>(indent), ' ') << key;
    if ((item.is_object() && !item.empty())) {
      std::cout << "\n";
      print_tree(item, indent + 2);
    } else {
      std::cout << "  " << text_of(item) << "\n";
    }
  }
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

// Tensors that are shown in one line: single numbers whose names begin alike, as the steps that an
// optimiser counts for every parameter.
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

// With statistics, which differ, each has a line of its own.
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

void print_classes(const Json& report) {
  const Json& classes = report["classes"];
  const bool complete = report["classes_complete"].get<bool>();
  if (classes.empty() && !complete) std::cout << "classes     could not be read\n";
  if (classes.empty()) return;
  std::cout << (complete ? "classes\n"
                         : "classes     there may be more, which could not be read\n");
  for (const bool harmless : {true, false}) {
    for (const Json& row : classes) {
      if (row["harmless"].get<bool>() != harmless) continue;
      std::cout << "  " << (harmless ? "harmless  " : "UNKNOWN   ") << text_of(row["name"]);
      if (row.contains("calls")) {
        std::cout << "  (" << row["calls"] << " calls, first named at byte " << row["byte"] << ")";
      }
      std::cout << "\n";
    }
  }
}

void print_opcodes(const Json& pickles) {
  std::cout << "opcodes     what unpickling would do; tost has done none of it\n";
  for (const Json& pickle : pickles) {
    for (const Json& row : pickle) {
      if (row.contains("error")) {
        std::cout << "  " << text_of(row["error"]) << "\n";
        continue;
      }
      std::cout << std::setw(10) << row["byte"].get<int64_t>() << "  " << text_of(row["op"]);
      if (row.contains("argument")) std::cout << " " << text_of(row["argument"]);
      if (row.contains("effect")) std::cout << "   <- " << text_of(row["effect"]);
      std::cout << "\n";
    }
  }
}

void print_report(const Json& report) {
  std::cout << label("file") << text_of(report["file"]) << "\n"
            << label("format") << text_of(report["format"]);
  if (report.contains("version")) std::cout << ", version " << text_of(report["version"]);
  std::cout << ", " << human_bytes(report["bytes"].get<int64_t>()) << "\n";
  if (report.contains("tensors")) {
    std::cout << label("holds") << report["tensors"].size() << " tensors, "
              << human_number(report["elements"].get<int64_t>()) << " elements\n";
    if (report.contains("models")) print_models(report["models"]);
  }
  for (const char* part : {"arguments", "metadata", "contents"}) {
    if (!report.contains(part)) continue;
    if (!report[part].is_object()) {
      std::cout << label(part) << text_of(report[part]) << "\n";
      continue;
    }
    std::cout << part << "\n";
    print_tree(report[part], 2);
  }
  if (report.contains("classes")) print_classes(report);
  if (report.contains("tensors")) print_tensors(report["tensors"]);
  if (report.contains("opcodes")) print_opcodes(report["opcodes"]);
}

// The same with every text made safe to show; the caller has limited the nesting.
Json escaped_json(const Json& value) {
  if (value.is_string()) return escaped(value.get<std::string>());
  if (!value.is_structured()) return value;
  Json safe = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      safe.push_back(escaped_json(item));
    } else {
      safe[escaped(key)] = escaped_json(item);
    }
  }
  return safe;
}

bool is_weight_file(const fs::path& path) {
  for (const char* extension : {".safetensors", ".pt", ".pth", ".bin", ".ckpt"}) {
    if (path.extension() == extension) return true;
  }
  return false;
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const FolderEntry& entry : folder_entries(folder)) {
    if (is_weight_file(entry.path) && !entry.folder) files.push_back(entry.path);
  }
  return files;
}

// Those that are there; inspect_shards() names the others.
std::vector<fs::path> shards_of(const fs::path& index) {
  std::vector<fs::path> files;
  for (const auto& [name, tensors] : read_safetensors_index(index).shards) {
    if (path_exists(index.parent_path() / name)) files.push_back(index.parent_path() / name);
  }
  return files;
}

// The folder itself where weight files or an index lie in it, else the one of a run's best or
// latest checkpoint.
fs::path find_weight_folder(const fs::path& path) {
  const bool weights = !weight_files(path).empty() || path_exists(path / kSafetensorsIndexFile);
  return weights ? path : find_model_file(path).parent_path();
}

// A shard's own part of a model is none to show.
void forget_models_of(const std::vector<fs::path>& shards, Json& files) {
  for (const fs::path& shard : shards) {
    for (Json& file : files) {
      if (file["file"] == escaped(shard.string(), 4096)) file.erase("models");
    }
  }
}

// Of a file of a run's checkpoint also whether it is what the checkpoint's manifest says.
Json inspect_verified(const fs::path& file, const InspectOptions& options) {
  Json report = inspect_weight_file(file, options);
  try {
    verify_file(file);
  } catch (const Error& error) {
    report["error"] = error.what();
  }
  return report;
}

// What is said of a file or folder that cannot be inspected.
Json refusal(const fs::path& path, const Error& error) {
  return {{"file", escaped(path.string(), 4096)},
          {"bytes", is_plain_file(path) ? file_bytes(path) : 0},
          {"suspicious", nullptr},
          {"error", error.what()},
          {"format", "refused"}};
}

// The same, but what inspect_weight_file() throws becomes part of the report too.
Json inspect_one_of_many(const fs::path& file, const InspectOptions& options) {
  try {
    return inspect_verified(file, options);
  } catch (const Error& error) {
    return refusal(file, error);
  }
}

// The folder of a checkpoint, or a run's best (else latest) one: every weight file of it. Of an
// index of shards: those files that it names. Where there is an index, also the model that its
// shards together are.
Json inspect_folder(const fs::path& path, const InspectOptions& options) {
  const bool index = is_safetensors_index(path);
  const fs::path folder = index ? path.parent_path() : find_weight_folder(path);
  Json report = {{"folder", escaped(path.string(), 4096)},
                 {"checkpoint", escaped(folder.string(), 4096)},
                 {"format", "folder"}};
  for (const fs::path& run : {path, folder.parent_path().parent_path()}) {
    if (!path_exists(run / kConfigFile)) continue;
    const std::string text = read_file(run / kConfigFile, 1 << 20);
    const Json config = parse_ordered_json(text, cat("'", (run / kConfigFile).string(), "'"));
    if (config.is_object()) report["arguments"] = escaped_json(config);
    break;
  }
  report["files"] = Json::array();
  for (const fs::path& file : index ? shards_of(path) : weight_files(folder)) {
    report["files"].push_back(inspect_one_of_many(file, options));
  }
  const fs::path index_file = index ? path : folder / kSafetensorsIndexFile;
  if (path_exists(index_file)) {
    report["whole"] = inspect_shards(index_file);
    forget_models_of(shards_of(index_file), report["files"]);
  }
  return report;
}

void print_whole(const Json& whole) {
  std::cout << label("index") << text_of(whole["index"]) << "\n"
            << label("format") << text_of(whole["format"]) << ", "
            << human_bytes(whole["bytes"].get<int64_t>()) << "\n"
            << label("holds") << whole["tensors"] << " tensors, "
            << human_number(whole["elements"].get<int64_t>()) << " elements in " << whole["shards"]
            << (whole["shards"] == 1 ? " shard" : " shards")
            << (whole["errors"].empty() ? "" : ", not all of them usable") << "\n";
  print_models(whole["models"]);
  if (!whole.contains("metadata")) return;
  std::cout << "metadata\n";
  print_tree(whole["metadata"], 2);
}

void print_folder(const Json& report) {
  std::cout << label("checkpoint") << text_of(report["checkpoint"]) << "\n";
  if (report.contains("whole")) print_whole(report["whole"]);
  if (report.contains("arguments")) {
    std::cout << "arguments\n";
    print_tree(report["arguments"], 2);
  }
  for (const Json& file : report["files"]) {
    std::cout << "\n";
    print_report(file);
    if (file.contains("error")) std::cout << label("error") << text_of(file["error"]) << "\n";
  }
}

// Warnings and the exit status; a folder has those of all its files, and of the model that they
// are the shards of.
void judge(const Json& files, const Json& shard_errors) {
  for (const Json& report : files) {
    if (report["suspicious"] != true) continue;
    std::cerr << "WARNING: " << text_of(report["file"])
              << " names classes or functions that no checkpoint needs (UNKNOWN above). "
                 "torch.load(weights_only=False) would run them; tost never does. "
                 "`--unsafe-report` lists every step.\n";
    set_exit_code(kExitData);
  }
  if (shard_errors.size() > 1) {
    fail_data(shard_errors.size(),
              " of its shards cannot be used; the first: ", text_of(shard_errors[0]));
  }
  if (shard_errors.size() == 1) fail_data(text_of(shard_errors[0]));
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

// Of a run or checkpoint folder, or of a file. With `--json` a refusal is an object as well.
Json inspect_any(const InspectCommand& options) {
  try {
    if (!path_exists(options.path)) (void)find_model_file(options.path);  // throws with the names
    return is_folder(options.path) || is_safetensors_index(options.path)
               ? inspect_folder(options.path, options.inspect)
               : inspect_verified(options.path, options.inspect);
  } catch (const Error& error) {
    if (!options.json) throw;
    return refusal(options.path, error);
  }
}

void run_inspect(const InspectCommand& options) {
  const Json report = inspect_any(options);
  const bool folder = report.contains("files");
  if (options.json) {
    std::cout << json_text(report, 2) << std::endl;
  } else {
    folder ? print_folder(report) : print_report(report);
  }
  std::cout.flush();
  const Json whole = report.value("whole", Json::object());
  judge(folder ? report["files"] : Json::array({report}), whole.value("errors", Json::array()));
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
  command->add_flag("--unsafe-report", options->inspect.calls,
                    "Every opcode of the pickle, and what running it would do");
  command->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  add_example(*command,
              "  tost inspect checkpoint.pth --stats\n"
              "  tost inspect stranger.pt --unsafe-report");
  command->callback([options] { run_inspect(*options); });
}

}  // namespace tost
