#include "tost/io/torch_writer.h"

#include <bit>
#include <map>
#include <optional>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/zip_writer.h"

namespace tost {
namespace {

constexpr char kFolder[] = "archive/";

std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

// The pickle, and the storages that its persistent ids name.
class Pickler {
 public:
  std::string write(const TorchItem& root) {
    out_ = "\x80\x02";
    item(root);
    return out_ + ".";
  }
  const std::vector<std::string_view>& storages() const { return storages_; }

 private:
  void global(const char* module, const char* name) {
    out_ += 'c';
    out_ += cat(module, "\n", name, "\n");
  }

  void text(std::string_view bytes) {
    out_ += 'X' + little_endian(bytes.size(), 4);
    out_ += bytes;
  }

  void integer(int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J' + little_endian(static_cast<uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08" + little_endian(static_cast<uint64_t>(value), 8);
    }
  }

  void number(double value) {  // big-endian
    std::string bytes = little_endian(std::bit_cast<uint64_t>(value), 8);
    out_ += 'G' + std::string(bytes.rbegin(), bytes.rend());
  }

  void integers(const std::vector<int64_t>& values) {
    out_ += '(';
    for (const int64_t value : values) integer(value);
    out_ += 't';
  }

  void ordered_dict() {
    global("collections", "OrderedDict");
    out_ += ")R";
  }

  size_t storage_of(std::string_view bytes) {
    const auto [place, is_new] =
        index_.emplace(std::pair{bytes.data(), bytes.size()}, storages_.size());
    if (is_new) storages_.push_back(bytes);
    return place->second;
  }

  void array(const TorchArray& array) {
    const TorchDtypeInfo& info = dtype_info(array.dtype);
    int64_t elements = 1;
    for (const int64_t side : array.shape) elements = checked_mul(elements, side, "a tensor");
    if (info.storage[0] == '\0')
      fail_data("Files of torch.save hold no tensors of ", info.name, ".");
    if (checked_mul(elements, info.bytes, "a tensor") != int64_t(array.bytes.size())) {
      fail_data("A tensor of ", elements, " elements of ", info.name, " has ", array.bytes.size(),
                " bytes.");
    }
    std::vector<int64_t> strides(array.shape.size());
    int64_t step = 1;
    for (size_t d = strides.size(); d-- > 0; step *= std::max<int64_t>(1, array.shape[d])) {
      strides[d] = step;
    }
    global("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    text("storage");
    global("torch", info.storage);
    text(cat(storage_of(array.bytes)));
    text("cpu");
    integer(elements);
    out_ += "tQ";
    integer(0);
    integers(array.shape);
    integers(strides);
    out_ += '\x89';
    ordered_dict();
    out_ += "tR";
  }

  void dict(const TorchItem& item, TorchItem::Dict kind) {
    const bool object = kind == TorchItem::Dict::kNamespace;
    if (object) {
      global("argparse", "Namespace");
      out_ += ")\x81}";
    } else {
      kind == TorchItem::Dict::kOrdered ? ordered_dict() : void(out_ += '}');
    }
    out_ += '(';
    for (size_t i = 0; i < item.items.size(); ++i) {
      text(item.keys[i]);
      this->item(item.items[i]);
    }
    out_ += object ? "ub" : "u";
  }

  void item(const TorchItem& item) {
    if (std::holds_alternative<std::monostate>(item.value)) out_ += 'N';
    if (const auto* flag = std::get_if<bool>(&item.value)) out_ += *flag ? '\x88' : '\x89';
    if (const auto* value = std::get_if<int64_t>(&item.value)) integer(*value);
    if (const auto* value = std::get_if<double>(&item.value)) number(*value);
    if (const auto* value = std::get_if<std::string>(&item.value)) text(*value);
    if (const auto* value = std::get_if<TorchArray>(&item.value)) array(*value);
    if (const auto* kind = std::get_if<TorchItem::Dict>(&item.value)) dict(item, *kind);
  }

  std::string out_;
  std::vector<std::string_view> storages_;
  std::map<std::pair<const char*, size_t>, size_t> index_;
};

}  // namespace

void TorchItem::add(std::string key, TorchItem item) {
  keys.push_back(std::move(key));
  items.push_back(std::move(item));
}

TorchItem torch_dict(TorchItem::Dict kind) {
  TorchItem dict;
  dict.value = kind;
  return dict;
}

void save_torch_file(const std::filesystem::path& path, const TorchItem& root) {
  Pickler pickler;
  const std::string pickle = pickler.write(root);
  ZipWriter zip(path);
  const std::string folder = kFolder;
  zip.add(folder + "data.pkl", pickle);
  zip.add(folder + "byteorder", "little");
  for (size_t i = 0; i < pickler.storages().size(); ++i) {
    zip.add(cat(folder, "data/", i), pickler.storages()[i]);
  }
  zip.add(folder + "version", "3\n");
  zip.finish();
}

}  // namespace tost
