#include "tost/io/torch_inspect.h"

#include <algorithm>
#include <set>

#include "tost/base/error.h"
#include "tost/io/mapped_file.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/torch_calls.h"
#include "tost/io/torch_dtype.h"
#include "tost/io/torch_model.h"
#include "tost/io/torch_names.h"
#include "tost/io/torch_outline.h"
#include "tost/io/torch_value.h"
#include "tost/io/zip_archive.h"
#include "tost/io/zip_directory.h"

namespace tost {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLines = 100'000;  // of opcodes

// The tensors of a report, with what they share and what was added up.
class TensorTable {
 public:
  // Statistics stop where overlapping tensors would make them cost far more than the file.
  TensorTable(const InspectOptions& options, size_t file_bytes)
      : options_(options), budget_(16 * static_cast<int64_t>(file_bytes) + (int64_t{1} << 26)) {}

  void add(const std::string& name, const TorchTensor& tensor, std::string_view bytes) {
    Json row;
    row["name"] = escaped(name, 1024);
    row["dtype"] = dtype_info(tensor.dtype).name;
    row["shape"] = tensor.shape;
    row["bytes"] = tensor.elements() * dtype_info(tensor.dtype).bytes;
    if (!tensor.contiguous()) row["strides"] = tensor.strides;
    if (tensor.parameter) row["parameter"] = true;
    if (options_.statistics && is_real(tensor.dtype)) add_statistics(row, tensor, bytes);
    elements_ += tensor.elements();
    shapes_.emplace(name, tensor.shape);
    rows_.push_back(std::move(row));
  }

  void finish(Json& report) {
    report["models"] = recognise_models(shapes_);
    report["elements"] = elements_;
    report["tensors"] = std::move(rows_);
  }

 private:
  void add_statistics(Json& row, const TorchTensor& tensor, std::string_view bytes) {
    budget_ -= stats_cost(tensor);
    if (budget_ < 0) return;
    const TensorStats stats = tensor_stats(tensor, bytes);
    row["min"] = stats.any ? Json(stats.least) : Json();
    row["max"] = stats.any ? Json(stats.greatest) : Json();
    row["nan"] = stats.nans;
    row["inf"] = stats.infinities;
  }

  const InspectOptions& options_;
  int64_t budget_;
  int64_t elements_ = 0;
  NamedShapes shapes_;
  Json rows_ = Json::array();
};

Json opcode_rows(const PickleListing& listing) {
  Json rows = Json::array();
  for (const PickleLine& line : listing.lines) {
    Json row = {{"byte", line.offset}, {"op", line.op}};
    if (!line.text.empty()) row["argument"] = line.text;
    if (!line.effect.empty()) row["effect"] = line.effect;
    rows.push_back(std::move(row));
  }
  return rows;
}

// The pickles of a file as bytes, each with what follows it; `whole` is false where there may be
// others that could not be reached.
struct Pickles {
  std::vector<std::string_view> bytes;
  bool whole = true;
};

constexpr size_t kMostPickles = 16;

// The archive's, whatever their folder.
Pickles find_zip_pickles(std::string_view bytes, const std::string& name) {
  Pickles found;
  try {
    const ZipArchive archive(bytes, name);
    for (const ZipEntry& entry : archive.entries()) {
      if (!entry.name.ends_with(".pkl")) continue;
      found.bytes.push_back(entry.bytes);
    }
  } catch (const Error&) {
    // The archive is refused as a whole; the report says so.
  }
  found.whole = !found.bytes.empty() && found.bytes.size() <= kMostPickles;
  found.bytes.resize(std::min(found.bytes.size(), kMostPickles));
  return found;
}

// Those in a row at the beginning.
Pickles find_pickles(std::string_view bytes, const std::string& name) {
  if (looks_like_zip(bytes)) return find_zip_pickles(bytes, name);
  Pickles found;
  while (found.bytes.size() < 5 && !bytes.empty()) {
    found.bytes.push_back(bytes);
    const PickleListing listing = list_pickle(bytes, 0);
    if (!listing.error.empty()) break;
    bytes.remove_prefix(listing.end);
  }
  return found;
}

// The classes of a report: those of the tree, then those that only the opcodes name.
class ClassTable {
 public:
  void add(std::string_view module, std::string_view name, const Json& extra) {
    if (!seen_.emplace(module, name).second) return;
    add_row(escaped(module) + "." + escaped(name), is_harmless_name(module, name), extra);
  }

  void add(const PickleListing& listing) {
    for (const auto& [module, name] : listing.names) add(module, name, Json::object());
    if (listing.unknown_imports > 0) {
      add_row(cat("<", listing.unknown_imports, " imports of names that cannot be listed>"), false,
              Json::object());
    }
    whole_ = whole_ && listing.error.empty();
  }

  void add(const PickleTree& tree) {
    for (const PickleGlobal& global : tree.globals()) {
      add(global.module, global.name, {{"byte", global.offset}, {"calls", global.calls}});
    }
  }

  void miss() { whole_ = false; }

  void finish(Json& report) {
    report["classes"] = std::move(rows_);
    report["classes_complete"] = whole_;
    report["suspicious"] = suspicious_ || whole_ ? Json(suspicious_) : Json();
  }

 private:
  void add_row(const std::string& name, bool harmless, const Json& extra) {
    constexpr size_t kMostRows = 10'000;
    suspicious_ = suspicious_ || !harmless;
    if (rows_.size() >= kMostRows) return miss();
    Json row = {{"name", name}, {"harmless", harmless}};
    row.update(extra);
    rows_.push_back(std::move(row));
  }

  std::set<std::pair<std::string, std::string>> seen_;
  Json rows_ = Json::array();
  bool suspicious_ = false, whole_ = true;
};

// What every pickle of the file would do, whichever of them the file's reader came to.
void add_listings(Json& report, ClassTable& classes, std::string_view bytes,
                  const std::string& name, bool opcodes) {
  const Pickles pickles = find_pickles(bytes, name);
  if (!pickles.whole) classes.miss();
  if (opcodes) report["opcodes"] = Json::array();
  for (const std::string_view pickle : pickles.bytes) {
    const PickleListing listing = list_pickle(pickle, opcodes ? kMostLines : 0);
    classes.add(listing);
    if (!opcodes) continue;
    Json rows = opcode_rows(listing);
    if (!listing.error.empty()) rows.push_back({{"error", listing.error}});
    report["opcodes"].push_back(std::move(rows));
  }
}

// Training arguments, where training scripts put them.
void add_arguments(Json& report, const TorchFile& file) {
  Json found = Json::object();
  for (const char* key : {"args", "config", "model_args", "hyper_parameters", "cfg", "hparams"}) {
    const auto value = torch_field(file.tree(), file.root(), key);
    if (value && !torch_fields(file.tree(), *value).empty()) {
      found[key] = outline(file, *value, {.depth = 3, .length = 200, .values = 1000});
    }
  }
  if (!found.empty()) report["arguments"] = std::move(found);
}

void describe_torch(Json& report, const TorchFile& file, size_t bytes,
                    const InspectOptions& options) {
  report["format"] = file.layout() == TorchLayout::kZip ? "torch zip" : "torch legacy";
  report["version"] = file.version();
  add_arguments(report, file);
  report["contents"] = outline(file, file.root());
  TensorTable table(options, bytes);
  std::vector<size_t> uses(file.storages().size());
  const auto tensors = list_torch_tensors(file, file.root());
  for (const NamedTorchTensor& named : tensors) {
    ++uses[named.tensor->storage];
    table.add(named.name, *named.tensor,
              options.statistics ? file.storage_bytes(named.tensor->storage) : std::string_view());
  }
  table.finish(report);
  Json& rows = report["tensors"];
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t storage = tensors[i].tensor->storage;
    if (uses[storage] > 1) rows[i]["shares"] = escaped(file.storages()[storage].key);
  }
  report["storages"] = file.storages().size();
}

void describe_safetensors(Json& report, std::string_view bytes, const std::string& name,
                          const InspectOptions& options) {
  const auto header = parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()), name);
  report["format"] = "safetensors";
  if (!header.metadata.empty()) report["metadata"] = Json::object();
  for (const auto& [key, value] : header.metadata) {
    report["metadata"][escaped(key)] = escaped(value, 100'000);
  }
  TensorTable table(options, bytes.size());
  for (const auto& [tensor_name, entry] : header.entries) {
    TorchTensor tensor;
    tensor.dtype = find_safetensors_dtype(entry.dtype)->dtype;
    tensor.shape = entry.shape;
    tensor.strides.assign(entry.shape.size(), 1);
    // Strides of an empty tensor mean nothing, and their products need not fit.
    for (size_t d = entry.shape.size(); entry.begin < entry.end && d-- > 1;) {
      tensor.strides[d - 1] = tensor.strides[d] * entry.shape[d];
    }
    table.add(tensor_name, tensor,
              bytes.substr(static_cast<size_t>(header.data_offset + entry.begin),
                           static_cast<size_t>(entry.end - entry.begin)));
  }
  table.finish(report);
}

bool looks_like_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' &&
         zip_number<uint64_t>(bytes, 0) <= static_cast<uint64_t>(kMaxSafetensorsHeader);
}

Json begin_report(std::string_view bytes, const std::string& name) {
  Json report;
  report["file"] = escaped(name, 4096);
  report["bytes"] = bytes.size();
  report["suspicious"] = false;
  return report;
}

}  // namespace

nlohmann::ordered_json inspect_torch_bytes(std::string_view bytes, const std::string& name,
                                           const InspectOptions& options) {
  Json report = begin_report(bytes, name);
  ClassTable classes;
  try {
    const auto file = TorchFile::parse(bytes, name);
    classes.add(file->tree());
    describe_torch(report, *file, bytes.size(), options);
  } catch (const Error& error) {
    report["error"] = error.what();
    if (!report.contains("format")) report["format"] = "refused";
  }
  add_listings(report, classes, bytes, name, options.calls);
  classes.finish(report);
  return report;
}

nlohmann::ordered_json inspect_weight_file(const std::filesystem::path& path,
                                           const InspectOptions& options) {
  const MappedFile map(path);
  const std::string_view bytes = map.bytes();
  const std::string name = path.string();
  if (looks_like_torch_file(bytes)) return inspect_torch_bytes(bytes, name, options);
  if (looks_like_safetensors(bytes)) {
    Json report = begin_report(bytes, name);
    describe_safetensors(report, bytes, name, options);
    return report;
  }
  if (bytes.substr(0, 1) == "\x80") return inspect_torch_bytes(bytes, name, options);
  fail_data(
      "'", escaped(name, 4096),
      "' is neither a file of torch.save nor a safetensors file; tost inspect reads these, and "
      "run and checkpoint folders.");
}

}  // namespace tost
