#include "tost/io/torch_inspect.h"

#include "tost/base/error.h"
#include "tost/io/mapped_file.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/torch_calls.h"
#include "tost/io/torch_element.h"
#include "tost/io/torch_model.h"
#include "tost/io/torch_names.h"
#include "tost/io/torch_outline.h"
#include "tost/io/torch_stats.h"
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

// The pickles of a file one after the other, as bytes: the one in the archive, or those in a row.
std::vector<std::string_view> find_pickles(std::string_view bytes, const std::string& name) {
  if (!looks_like_zip(bytes)) {
    std::vector<std::string_view> pickles;
    while (pickles.size() < 5 && !bytes.empty()) {
      pickles.push_back(bytes);
      const PickleListing listing = list_pickle(bytes, 0);
      if (!listing.error.empty()) break;
      bytes.remove_prefix(listing.end);
    }
    return pickles;
  }
  try {
    const ZipArchive archive(bytes, name);
    for (const ZipEntry& entry : archive.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash != entry.name.npos && entry.name.substr(slash + 1) == "data.pkl")
        return {entry.bytes};
    }
  } catch (const Error&) {
    // The archive is refused as a whole; the report says so.
  }
  return {};
}

void add_class(Json& report, std::string_view module, std::string_view name, const Json& extra) {
  Json row;
  row["name"] = escaped(module) + "." + escaped(name);
  row["harmless"] = is_harmless_name(module, name);
  row.update(extra);
  if (!row["harmless"].get<bool>()) report["suspicious"] = true;
  report["classes"].push_back(std::move(row));
}

void add_listing(Json& report, std::string_view bytes, const std::string& name, bool names,
                 bool opcodes) {
  if (opcodes) report["opcodes"] = Json::array();
  for (const std::string_view pickle : find_pickles(bytes, name)) {
    const PickleListing listing = list_pickle(pickle, opcodes ? kMostLines : 0);
    if (names) {
      for (const auto& [module, last] : listing.names)
        add_class(report, module, last, Json::object());
    }
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
  for (const PickleGlobal& global : file.tree().globals()) {
    add_class(report, global.module, global.name,
              {{"byte", global.offset}, {"calls", global.calls}});
  }
}

TorchDtype safetensors_type(const std::string& name) {
  constexpr std::pair<const char*, TorchDtype> kTypes[] = {
      {"F64", TorchDtype::kFloat64},
      {"F32", TorchDtype::kFloat32},
      {"F16", TorchDtype::kFloat16},
      {"BF16", TorchDtype::kBFloat16},
      {"I64", TorchDtype::kInt64},
      {"I32", TorchDtype::kInt32},
      {"I16", TorchDtype::kInt16},
      {"I8", TorchDtype::kInt8},
      {"U64", TorchDtype::kUInt64},
      {"U32", TorchDtype::kUInt32},
      {"U16", TorchDtype::kUInt16},
      {"U8", TorchDtype::kUInt8},
      {"BOOL", TorchDtype::kBool},
      {"F8_E5M2", TorchDtype::kFloat8E5m2},
      {"F8_E4M3", TorchDtype::kFloat8E4m3fn},
  };
  for (const auto& [known, dtype] : kTypes) {
    if (name == known) return dtype;
  }
  fail_data("There is no element type '", name, "'.");
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
    tensor.dtype = safetensors_type(entry.dtype);
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
  report["classes"] = Json::array();
  try {
    const auto file = TorchFile::parse(bytes, name);
    describe_torch(report, *file, bytes.size(), options);
    if (options.calls) add_listing(report, bytes, name, false, true);
  } catch (const Error& error) {
    report["error"] = error.what();
    if (!report.contains("format")) report["format"] = "refused";
    add_listing(report, bytes, name, report["classes"].empty(), options.calls);
  }
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
