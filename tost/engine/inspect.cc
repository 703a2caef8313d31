#include "tost/engine/inspect.h"

#include <algorithm>
#include <cmath>

#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/engine/arrays_file.h"
#include "tost/engine/foreign_model.h"
#include "tost/engine/manifest.h"
#include "tost/engine/metadata.h"
#include "tost/engine/model_files.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The elements that statistics read; a dimension of stride 0 counts once.
Array::Shape distinct_shape(const TorchTensor& tensor) {
  Array::Shape shape = tensor.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (tensor.strides[d] == 0) shape[d] = std::min<int64_t>(1, shape[d]);
  }
  return shape;
}

// Adds statistics of elements that each stand for `repeats` ones.
void add_statistics(Json& row, const Array& elements, int64_t repeats) {
  const TorchDtypeInfo& type = dtype_info(elements.dtype());
  const std::string_view bytes(elements.data<char>(), size_t(elements.bytes()));
  int64_t nans = 0, infinities = 0;
  double least = INFINITY, greatest = -INFINITY;  // of the finite numbers
  for (const char* at = bytes.begin(); at != bytes.end(); at += type.bytes) {
    const double value = type.number(at);
    nans += std::isnan(value);
    infinities += std::isinf(value);
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  const auto known = [&](double value) { return least <= greatest ? Json(value) : Json(); };
  row.update({{"min", known(least)}, {"max", known(greatest)}});
  row.update({{"nan", nans * repeats}, {"inf", infinities * repeats}});
}

// The tensors of a report, and sums over these tensors.
class TensorTable {
 public:
  // Limits statistics, because overlapping tensors could have far more elements than the file.
  TensorTable(const InspectOptions& options, int64_t file_bytes)
      : statistics_(options.statistics), budget_(16 * file_bytes + (int64_t{1} << 26)) {}

  // Adds a tensor to the report; `data` finds the first element of its storage for statistics.
  template <class Data>
  Json& add(const std::string& name, const TorchTensor& tensor, const Data& data) {
    const TorchDtypeInfo& type = dtype_info(tensor.dtype);
    Json row = {{"name", escaped(name, 1024)},
                {"dtype", type.name},
                {"shape", tensor.shape},
                {"bytes", tensor.elements() * type.bytes}};
    if (!tensor.contiguous()) row["strides"] = tensor.strides;
    if (tensor.parameter) row["parameter"] = true;
    if (statistics_ && type.number != nullptr) {
      Array read(distinct_shape(tensor), type.dtype, nullptr);
      const int64_t count = read.numel();
      budget_ -= count;
      if (budget_ >= 0) {
        char* first = const_cast<char*>(data()) + tensor.offset * type.bytes;
        read = {read.shape(), type.dtype, {std::shared_ptr<void>(), first}, tensor.strides};
        add_statistics(row, read.contiguous(), tensor.elements() / std::max<int64_t>(1, count));
      }
    }
    elements_ += tensor.elements();
    shapes_.emplace(name, tensor.shape);
    rows_.push_back(std::move(row));
    return rows_.back();
  }

  void finish(Json& report) {
    report["models"] = recognise_models(shapes_);
    report["elements"] = elements_;
    report["tensors"] = std::move(rows_);
  }

 private:
  bool statistics_;
  int64_t budget_;
  int64_t elements_ = 0;
  NamedShapes shapes_;
  Json rows_ = Json::array();
};

void add_classes(Json& report, const PickleTree& tree) {
  constexpr size_t kMost = 10'000;
  report["classes"] = Json::array();
  for (const PickleGlobal& named : tree.globals()) {
    const bool harmless = is_harmless_name(named.module, named.name);
    if (!harmless) report["suspicious"] = true;
    if (report["classes"].size() >= kMost) continue;
    report["classes"].push_back({{"name", escaped(named.module) + "." + escaped(named.name)},
                                 {"harmless", harmless},
                                 {"byte", named.offset},
                                 {"calls", named.calls}});
  }
}

void describe_torch(Json& report, const fs::path& path, const InspectOptions& options) {
  const auto file = TorchFile::open(path);
  report["format"] = "torch zip";
  report["version"] = file->version();
  TensorTable table(options, report["bytes"]);
  const auto tensors = list_torch_tensors(*file, file->root());
  std::vector<size_t> uses(file->storages().size());
  for (const NamedTorchTensor& named : tensors) ++uses[named.tensor->storage];
  for (const NamedTorchTensor& named : tensors) {
    const size_t storage = named.tensor->storage;
    Json& row = table.add(named.name, *named.tensor, [&] {
      const std::string_view bytes = file->storage_bytes(storage);
      if (named.tensor->dtype == TorchDtype::kBool)
        check_booleans(bytes, cat("'", path.string(), "'"));
      return bytes.data();
    });
    if (uses[storage] > 1) row["shares"] = escaped(file->storages()[storage].key);
  }
  table.finish(report);
  report["storages"] = file->storages().size();
  add_classes(report, file->tree());
}

// Replaces the patch size that follows from the stem by the size that the file states.
void correct_patch(Json& report, const std::map<std::string, std::string>& metadata,
                   const std::string& where) {
  if (!describes_itself(metadata) || report["models"].size() != 1) return;
  const auto config = metadata_json(metadata, kConfigKey, where);
  if (config.is_object() && config.contains("patch") && report["models"][0].contains("patch")) {
    report["models"][0]["patch"] = config["patch"];
  }
}

void describe_safetensors(Json& report, const fs::path& path, const InspectOptions& options) {
  const SafetensorsHeader header = read_safetensors_header(path);
  if (is_safetensors_index(path)) {
    const auto shards = read_safetensors_index(path).shards;
    report["format"] = "safetensors shards";
    report["shards"] = shards.size();
    report["bytes"] = 0;
    for (const auto& [name, tensors] : shards) {
      report["bytes"] = report["bytes"].get<int64_t>() + file_bytes(path.parent_path() / name);
    }
  } else {
    report["format"] = "safetensors";
  }
  if (!header.metadata.empty()) report["metadata"] = Json::object();
  for (const auto& [key, value] : header.metadata) {
    report["metadata"][escaped(key)] = escaped(value, 100'000);
  }
  ArraysFile file;
  if (options.statistics) file = load_arrays(path);
  TensorTable table(options, report["bytes"]);
  for (const auto& [name, entry] : header.entries) {
    TorchTensor tensor;
    tensor.dtype = find_safetensors_dtype(entry.dtype)->dtype;
    tensor.shape = entry.shape;
    tensor.strides.assign(entry.shape.size(), 1);
    // Ignores the strides of an empty tensor, because their products may overflow.
    for (size_t d = entry.shape.size(); entry.begin < entry.end && d-- > 1;) {
      tensor.strides[d - 1] = tensor.strides[d] * entry.shape[d];
    }
    table.add(name, tensor, [&file, &name = name] { return file.arrays.at(name).data<char>(); });
  }
  table.finish(report);
  correct_patch(report, header.metadata, cat("'", path.string(), "'"));
}

// Copies JSON with every text escaped; the caller has limited the nesting.
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

// The weight files in a folder; an index stands for its shards.
std::vector<fs::path> weight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  const fs::path index = folder / kSafetensorsIndexFile;
  if (path_exists(index)) files.push_back(index);
  const auto shards = path_exists(index) ? read_safetensors_index(index).shards
                                         : decltype(SafetensorsIndex::shards)();
  for (const FolderEntry& entry : folder_entries(folder)) {
    if (entry.folder || shards.contains(entry.path.filename().string())) continue;
    for (const char* extension : {".safetensors", ".pt", ".pth", ".bin", ".ckpt"}) {
      if (entry.path.extension() == extension) files.push_back(entry.path);
    }
  }
  return files;
}

Json inspect_verified(const fs::path& file, const InspectOptions& options) {
  Json report = inspect_weight_file(file, options);
  try {
    verify_file(file);
  } catch (const Error& error) {
    report["error"] = error.what();
  }
  return report;
}

// Adds the settings of the run that contains `path` or the checkpoint folder.
void add_arguments(Json& report, const fs::path& path, const fs::path& checkpoint) {
  for (const fs::path& run : {path, checkpoint.parent_path().parent_path()}) {
    if (!path_exists(run / kConfigFile)) continue;
    const std::string text = read_file(run / kConfigFile, 1 << 20);
    const Json config = parse_ordered_json(text, cat("'", (run / kConfigFile).string(), "'"));
    if (config.is_object()) report["arguments"] = escaped_json(config);
    return;
  }
}

Json inspect_folder(const fs::path& path, const InspectOptions& options) {
  const fs::path folder = weight_files(path).empty() ? find_model_file(path).parent_path() : path;
  Json report = {{"folder", escaped(path.string(), 4096)},
                 {"checkpoint", escaped(folder.string(), 4096)},
                 {"format", "folder"}};
  add_arguments(report, path, folder);
  Json files = Json::array();
  for (const fs::path& file : weight_files(folder)) {
    try {
      files.push_back(inspect_verified(file, options));
    } catch (const Error& error) {
      files.push_back(inspect_refusal(file, error));
    }
  }
  report["files"] = std::move(files);
  return report;
}

}  // namespace

Json inspect_weight_file(const fs::path& path, const InspectOptions& options) {
  const std::string beginning = read_beginning(path, 512);
  Json report = {
      {"file", escaped(path.string(), 4096)}, {"bytes", file_bytes(path)}, {"suspicious", false}};
  if (is_safetensors_index(path)) {
    describe_safetensors(report, path, options);
  } else if (looks_like_torch_file(beginning)) {
    describe_torch(report, path, options);
  } else if (beginning.size() > 8 && beginning[8] == '{') {
    describe_safetensors(report, path, options);
  } else {
    fail_data("'", escaped(path.string(), 4096),
              "' is neither a file of torch.save nor a safetensors file; tost inspect reads these, "
              "and run and checkpoint folders.");
  }
  return report;
}

Json inspect(const fs::path& path, const InspectOptions& options) {
  if (!path_exists(path)) (void)find_model_file(path);  // throws with the names
  return is_folder(path) ? inspect_folder(path, options) : inspect_verified(path, options);
}

Json inspect_refusal(const fs::path& path, const Error& error) {
  return {{"file", escaped(path.string(), 4096)},
          {"bytes", is_plain_file(path) ? file_bytes(path) : 0},
          {"suspicious", nullptr},
          {"error", error.what()},
          {"format", "refused"}};
}

}  // namespace tost
