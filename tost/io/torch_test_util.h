// Small torch files made by hand, so that tests can break one rule at a time.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost::testing {

// `bytes` bytes of a little-endian number.
inline std::string number(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
  return out;
}

inline void patch(std::string& bytes, size_t at, uint64_t value, int width) {
  bytes.replace(at, static_cast<size_t>(width), number(value, width));
}

// Opcodes of pickles.
inline std::string proto(int version = 2) {
  return std::string("\x80") + static_cast<char>(version);
}
inline std::string str(std::string_view text) {
  return "X" + number(text.size(), 4) + std::string(text);
}
inline std::string integer(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX)
    return "J" + number(static_cast<uint64_t>(value), 4);
  return "\x8a\x08" + number(static_cast<uint64_t>(value), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string integers(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}
inline std::string call(const std::string& callee, const std::vector<std::string>& args) {
  return callee + tuple(args) + "R";
}
inline std::string dict(const std::vector<std::string>& pairs) {
  std::string out = "}(";
  for (const std::string& part : pairs) out += part;
  return out + "u";
}
inline std::string storage(const std::string& key, int64_t elements,
                           const std::string& type = "FloatStorage") {
  return tuple({str("storage"), global("torch", type), str(key), str("cpu"), integer(elements)}) +
         "Q";
}
inline std::string no_hooks() {
  return call(global("collections", "OrderedDict"), {});
}
inline std::string tensor(const std::string& on, int64_t offset, const std::string& shape,
                          const std::string& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {on, integer(offset), shape, strides, "\x89", no_hooks()});
}

struct ZipItem {
  std::string name, data;
};

// A zip archive and the positions of its parts.
struct ZipBytes {
  std::string bytes;
  std::vector<size_t> local, data, record;  // of every entry
  size_t directory = 0, end = 0;            // `end`: the last record
};

inline ZipBytes make_zip(const std::vector<ZipItem>& items, bool descriptors = false) {
  ZipBytes zip;
  std::string directory;
  for (const ZipItem& item : items) {
    const auto crc =
        ::crc32_z(0, reinterpret_cast<const Bytef*>(item.data.data()), item.data.size());
    const uint64_t flags = descriptors ? 8 : 0;
    const std::string sums =
        number(crc, 4) + number(item.data.size(), 4) + number(item.data.size(), 4);
    zip.local.push_back(zip.bytes.size());
    zip.bytes += "PK\x03\x04" + number(0, 2) + number(flags, 2) + number(0, 6) +
                 (descriptors ? number(0, 12) : sums) + number(item.name.size(), 2) + number(0, 2) +
                 item.name;
    zip.data.push_back(zip.bytes.size());
    zip.bytes += item.data;
    if (descriptors) zip.bytes += "PK\x07\x08" + sums;
    zip.record.push_back(directory.size());
    directory += "PK\x01\x02" + number(0, 4) + number(flags, 2) + number(0, 6) + sums +
                 number(item.name.size(), 2) + number(0, 12) + number(zip.local.back(), 4) +
                 item.name;
  }
  zip.directory = zip.bytes.size();
  for (size_t& at : zip.record) at += zip.directory;
  zip.bytes += directory;
  zip.end = zip.bytes.size();
  zip.bytes += "PK\x05\x06" + number(0, 4) + number(items.size(), 2) + number(items.size(), 2) +
               number(directory.size(), 4) + number(zip.directory, 4) + number(0, 2);
  return zip;
}

inline std::vector<ZipItem> torch_items(const std::string& object, const std::string& data) {
  return {{"m/data.pkl", proto() + object + "."},
          {"m/byteorder", "little"},
          {"m/data/0", data},
          {"m/version", "3\n"}};
}

// torch.save of `object`, with one storage "0".
inline std::string torch_zip(const std::string& object,
                             const std::string& data = std::string(16, 1)) {
  return make_zip(torch_items(object, data)).bytes;
}

}  // namespace tost::testing
