#include "tost/engine/arrays_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

// The bytes of a file, and their owner. Changes of the bytes never reach the file.
struct Content {
  std::shared_ptr<void> owner;
  char* data;
  size_t size;
  bool mapped = false;

  std::string_view bytes() const { return {data, size}; }
};

// A view of the content if it is aligned, else a copy.
Array make_array(const Content& content, const SafetensorsEntry& entry, int64_t data_offset) {
  const TorchDtype dtype = find_safetensors_dtype(entry.dtype)->dtype;
  char* data = content.data + data_offset + entry.begin;
  const Array view(entry.shape, dtype,
                   content.mapped ? std::shared_ptr<void>(data, MappedPart{content.owner})
                                  : std::shared_ptr<void>(content.owner, data));
  const bool even = reinterpret_cast<uintptr_t>(data) % uintptr_t(dtype_info(dtype).bytes) == 0;
  return even && entry.begin < entry.end ? view : view.clone();
}

struct Item {
  const std::string* name;
  const Array* array;
  const char* dtype;
};

// Orders arrays by width of the type, widest first, then by name.
std::vector<Item> order_items(const Arrays& arrays) {
  std::vector<Item> items;
  for (const auto& [name, array] : arrays) {
    if (!array.defined()) fail_data("Tensor '", name, "' is undefined and cannot be saved.");
    if (name == "__metadata__") fail_data("A tensor cannot be called '__metadata__'.");
    const auto& type = dtype_info(array.dtype());
    if (*type.safetensors == '\0') {
      fail_data("Tensor '", name, "' is of type ", type.name,
                ", which safetensors files here do not hold.");
    }
    items.push_back({&name, &array, type.safetensors});
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return dtype_info(a.array->dtype()).bytes > dtype_info(b.array->dtype()).bytes;
  });
  return items;
}

// Makes the header: its length, and JSON that is padded with spaces to a multiple of 8.
std::string make_header(const std::vector<Item>& items,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  int64_t offset = 0;
  // Appends without a look-up, because ordered_json searches its keys linearly.
  auto& object = json.get_ref<nlohmann::ordered_json::object_t&>();
  for (const auto& item : items) {
    const int64_t end = checked_add(offset, item.array->bytes(), "safetensors data");
    nlohmann::ordered_json entry;
    entry["dtype"] = item.dtype;
    entry["shape"] = item.array->shape();
    entry["data_offsets"] = {offset, end};
    object.emplace_back(*item.name, std::move(entry));
    offset = end;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    fail_data("A tensor name or metadata to be saved is not valid UTF-8.");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > size_t{kMaxSafetensorsHeader}) {
    fail_data("The safetensors header would have ", text.size(),
              " bytes; the limit of the format is ", kMaxSafetensorsHeader, ".");
  }
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

// Passes the file to `write` in parts, one array at a time, so that there is never a second copy of
// all arrays.
template <class Write>
void write_items(const std::vector<Item>& items, const std::map<std::string, std::string>& metadata,
                 const Write& write) {
  write(make_header(items, metadata));
  for (const auto& item : items) {
    const Array data = item.array->contiguous();
    write({data.data<char>(), static_cast<size_t>(data.bytes())});
  }
}

ArraysFile file_from(const Content& content, const std::string& name) {
  auto header = parse_safetensors_header(content.bytes(), static_cast<int64_t>(content.size), name);
  ArraysFile file;
  for (const auto& [tensor, entry] : header.entries) {
    const auto array = make_array(content, entry, header.data_offset);
    if (array.dtype() == TorchDtype::kBool) {
      check_booleans({array.data<char>(), size_t(array.bytes())},
                     cat("'", name, "': tensor '", tensor, "'"));
    }
    file.arrays.emplace(tensor, array);
  }
  file.metadata = std::move(header.metadata);
  return file;
}

ArraysFile load_one(const std::filesystem::path& path) {
  const auto map = std::make_shared<MappedFile>(path, MappedFile::Access::kCopyOnWrite);
  return file_from(
      {map, const_cast<char*>(map->bytes().data()), map->bytes().size(), /*mapped=*/true},
      path.string());
}

}  // namespace

ArraysFile parse_arrays(std::shared_ptr<std::string> bytes, const std::string& name) {
  return file_from({bytes, bytes->data(), bytes->size()}, name);
}

ArraysFile load_arrays(const std::filesystem::path& path) {
  return is_safetensors_index(path) ? read_shards(path, &ArraysFile::arrays, load_one)
                                    : load_one(path);
}

std::string arrays_bytes(const Arrays& arrays, const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  write_items(order_items(arrays), metadata,
              [&bytes](std::string_view part) { bytes.append(part); });
  return bytes;
}

void save_arrays(const std::filesystem::path& path, const Arrays& arrays,
                 const std::map<std::string, std::string>& metadata) {
  const auto items = order_items(arrays);
  AtomicFile out(path);
  write_items(items, metadata, [&out](std::string_view part) { out.write(part); });
  out.finish();
}

}  // namespace tost
