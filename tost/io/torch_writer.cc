#include "tost/io/torch_writer.h"

#include <bit>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/crc.h"

namespace tost {
namespace {

// Zip archives of stored entries, written: what zip_archive.h reads.

// From these on, numbers stand in zip64 fields.
constexpr uint64_t kNarrow = 0xffffffff, kManyEntries = 0xffff;
constexpr uint64_t kAlignment = 64, kEntryHeader = 30, kFieldHeader = 4;
// 1 January 1980: files do not tell when they were made.
constexpr uint32_t kDate = 0x00210000;

class Bytes {
 public:
  Bytes& u16(uint64_t value) { return number(value, 2); }
  Bytes& u32(uint64_t value) { return number(value, 4); }
  Bytes& u64(uint64_t value) { return number(value, 8); }
  Bytes& narrow(uint64_t value) { return u32(value >= kNarrow ? kNarrow : value); }
  Bytes& text(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  const std::string& get() const { return out_; }

 private:
  Bytes& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string out_;
};

// The numbers that do not fit into 32 bits.
std::string zip64_field(const std::vector<uint64_t>& numbers) {
  Bytes body;
  for (const uint64_t value : numbers) {
    if (value >= kNarrow) body.u64(value);
  }
  if (body.get().empty()) return {};
  return Bytes().u16(1).u16(body.get().size()).text(body.get()).get();
}

// A field of torch's kind that moves the data to a multiple of kAlignment.
std::string padding_field(uint64_t data_without) {
  const uint64_t past = (data_without + kFieldHeader) % kAlignment;
  const uint64_t size = past == 0 ? 0 : kAlignment - past;
  return Bytes().text("FB").u16(size).text(std::string(size, 'Z')).get();
}

// Every entry's bytes begin at a multiple of 64, as in torch's files, so that they can be used
// where they lie. Sizes beyond 4 GiB are written as zip64. Without finish() nothing stays.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : out_(path) {}

  // `name` is plain, relative and new.
  void add(const std::string& name, std::string_view bytes) {
    const Entry entry{name, bytes.size(), at_, zip_crc32(bytes)};
    std::string extra = zip64_field({entry.size, entry.size});
    extra += padding_field(at_ + kEntryHeader + name.size() + extra.size());
    write(Bytes()
              .u32(0x04034b50)
              .u16(extra.size() > 0 && entry.size >= kNarrow ? 45 : 20)
              .u16(0)
              .u16(0)
              .u32(kDate)
              .u32(entry.crc)
              .narrow(entry.size)
              .narrow(entry.size)
              .u16(name.size())
              .u16(extra.size())
              .text(name)
              .text(extra)
              .get());
    write(bytes);
    entries_.push_back(entry);
  }

  void finish() {
    const uint64_t begin = at_;
    for (const Entry& entry : entries_) write_record(entry);
    write_end(begin);
    out_.finish();
  }

 private:
  struct Entry {
    std::string name;
    uint64_t size = 0, header = 0;  // header: of the local one, from the start of the file
    uint32_t crc = 0;
  };

  void write(std::string_view bytes) {
    out_.write(bytes);
    at_ += bytes.size();
  }

  void write_record(const Entry& entry) {
    const std::string extra = zip64_field({entry.size, entry.size, entry.header});
    write(Bytes()
              .u32(0x02014b50)
              .u16(45)
              .u16(extra.empty() ? 20 : 45)
              .u16(0)
              .u16(0)
              .u32(kDate)
              .u32(entry.crc)
              .narrow(entry.size)
              .narrow(entry.size)
              .u16(entry.name.size())
              .u16(extra.size())
              .u16(0)
              .u16(0)
              .u16(0)
              .u32(0)
              .narrow(entry.header)
              .text(entry.name)
              .text(extra)
              .get());
  }

  void write_end(uint64_t begin) {
    const uint64_t end = at_, count = entries_.size();
    const uint64_t narrow_count = count >= kManyEntries ? kManyEntries : count;
    if (end >= kNarrow || count >= kManyEntries) {
      Bytes wide;
      wide.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count);
      wide.u64(end - begin).u64(begin);
      wide.u32(0x07064b50).u32(0).u64(end).u32(1);  // the locator
      write(wide.get());
    }
    Bytes record;
    record.u32(0x06054b50).u16(0).u16(0).u16(narrow_count).u16(narrow_count);
    write(record.narrow(end - begin).narrow(begin).u16(0).get());
  }

  AtomicFile out_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

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
