#include "tost/io/cifar.h"

#include <algorithm>
#include <sstream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxNamesBytes = int64_t{1} << 20;
constexpr size_t kMaxNames = 256;  // a label is one byte

void append_planes(const uint8_t* planes, std::vector<uint8_t>& pixels) {
  constexpr int64_t plane = kCifarSide * kCifarSide;
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < 3; ++c) pixels.push_back(planes[c * plane + i]);
  }
}

}  // namespace

void append_cifar(const std::string& path, CifarKind kind, int64_t classes, CifarRecords& records) {
  const int64_t label_bytes = kind == CifarKind::kCifar10 ? 1 : 2;
  const int64_t record = label_bytes + kCifarImageBytes;
  const std::string bytes = read_file(path, kMaxFileBytes);
  const auto size = static_cast<int64_t>(bytes.size());
  if (size == 0 || size % record != 0) {
    fail_data("'", path, "' has ", size, " bytes, not a multiple of the ", record, " bytes of a ",
              kind == CifarKind::kCifar10 ? "CIFAR-10" : "CIFAR-100",
              " record; it is truncated or of another format.");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  records.labels.reserve(records.labels.size() + static_cast<size_t>(size / record));
  records.pixels.reserve(records.pixels.size() + static_cast<size_t>(size));
  for (int64_t at = 0; at < size; at += record) {
    const uint8_t label = data[at + label_bytes - 1];
    if (label >= classes) {
      fail_data("'", path, "' has label ", int{label}, " in record ", at / record,
                ", but there are only ", classes, " classes.");
    }
    records.labels.push_back(label);
    append_planes(data + at + label_bytes, records.pixels);
  }
}

std::vector<std::string> read_class_names(const std::string& path) {
  std::istringstream lines(read_file(path, kMaxNamesBytes));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) fail_data("'", path, "' holds no class name; it needs one a line.");
  if (names.size() > kMaxNames) {
    fail_data("'", path, "' holds ", names.size(), " class names; at most ", kMaxNames,
              " are possible.");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail_data("'", path, "' has an empty class name in line ", i + 1, ".");
    require_utf8(names[i], cat("The class name in line ", i + 1, " of '", path, "',"));
    const auto place = std::find(names.begin(), names.end(), names[i]) - names.begin();
    if (size_t(place) < i) {
      fail_data("'", path, "' has the class name '", names[i], "' in lines ", place + 1, " and ",
                i + 1, "; each class needs its own.");
    }
  }
  return names;
}

}  // namespace tost
