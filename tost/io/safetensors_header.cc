#include "tost/io/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_dtype.h"

namespace tost {
namespace {

// The bytes of one element; 0 for an unsupported type, such as 4-bit and 6-bit types.
int64_t dtype_bytes(std::string_view dtype) {
  const TorchDtypeInfo* info = find_safetensors_dtype(dtype);
  return info != nullptr ? info->bytes : 0;
}

constexpr size_t kMaxRank = 64;  // the limit of torch's iterators

[[noreturn]] void fail_invalid(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid safetensors file: ", what, ".");
}

// Fills a header from the events of the JSON parser; checks structure and types, not sizes. Stores
// only expected values, so that memory is bounded by the text.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  SafetensorsHeader read(std::string_view text) {
    try {
      const json kept = json::parse(text, [this](int depth, Event event, json& value) {
        take(depth, event, value);
        return event != Event::object_end;
      });
    } catch (const json::parse_error& error) {
      fail(cat("its header is not JSON at byte ", error.byte));
    } catch (const json::exception&) {
      fail("its header holds a number that is too large");
    }
    return std::move(header_);
  }

 private:
  using json = nlohmann::json;
  using Event = json::parse_event_t;

  [[noreturn]] void fail(const std::string& what) const { fail_invalid(file_, what); }

  // `depth` is the number of objects and lists around the value.
  [[noreturn]] void fail_unexpected(int depth, const std::string& found) const {
    const std::string name = shown(name_, kMaxShown), key = shown(field_, kMaxShown);
    if (depth == 1) {
      fail(cat(in_metadata_ ? "__metadata__ must be an object of strings"
                            : name + " must be an object with dtype, shape and data_offsets",
               ", found ", found));
    }
    if (in_metadata_) fail(cat("metadata ", key, " must be a string, found ", found));
    const char* wanted = field_ == "dtype"   ? "a string"
                         : field_ == "shape" ? "a list of integers"
                                             : "two integers";
    fail(cat("the ", field_, " of ", name, " must be ", wanted, ", found ", found));
  }

  void take(int depth, Event event, json& value) {
    switch (event) {
      case Event::key:
        return depth == 1 ? begin_entry(value.get<std::string>())
                          : begin_field(value.get<std::string>());
      case Event::object_start:
        if (depth > 1) fail_unexpected(depth, "an object");
        return;
      case Event::array_start:
        if (depth != 2 || in_metadata_ || field_ == "dtype") fail_unexpected(depth, "a list");
        return numbers_.clear();
      case Event::value:
        return take_value(depth, value);
      case Event::array_end:
        return finish_list();
      case Event::object_end:
        if (depth == 1 && !in_metadata_) check_complete();
    }
  }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    fields_.clear();
    in_metadata_ = name_ == "__metadata__";
    if (in_metadata_) {
      if (has_metadata_) fail("__metadata__ appears twice");
      has_metadata_ = true;
      return;
    }
    const auto [place, fresh] = header_.entries.try_emplace(name_);
    if (!fresh) fail(cat("tensor ", shown(name_, kMaxShown), " appears twice"));
    entry_ = &place->second;
  }

  void begin_field(std::string field) {
    field_ = std::move(field);
    const std::string name = shown(name_, kMaxShown), key = shown(field_, kMaxShown);
    const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    if (!in_metadata_ && !known) fail(cat("tensor ", name, " has the unknown field ", key));
    if (fields_.insert(field_).second) return;
    fail(in_metadata_ ? cat("metadata ", key, " appears twice")
                      : cat("tensor ", name, " has ", key, " twice"));
  }

  void take_value(int depth, const json& value) {
    if (depth == 1 && in_metadata_ && value.is_null()) return;  // as absent in the reference
    if (depth == 3) return take_number(value);
    if (depth == 1 || !value.is_string() || (!in_metadata_ && field_ != "dtype")) {
      fail_unexpected(depth, kind_of(value));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (in_metadata_) {
      header_.metadata[field_] = text;
      return;
    }
    if (dtype_bytes(text) == 0) {
      fail_data("'", file_, "': tensor ", shown(name_, kMaxShown), " has the type ",
                shown(text, kMaxShown), ", which is none of those this program reads.");
    }
    entry_->dtype = text;
  }

  void take_number(const json& value) {
    if (!value.is_number_unsigned()) fail_unexpected(3, kind_of(value));
    const auto number = value.get<uint64_t>();
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) {
      fail_unexpected(3, cat("the impossible size ", number));
    }
    if (field_ == "shape" && numbers_.size() == kMaxRank) {
      fail(cat(shown(name_, kMaxShown), " has more than ", kMaxRank, " dimensions"));
    }
    if (field_ != "shape" && numbers_.size() == 2) fail_unexpected(3, "a third one");
    numbers_.push_back(static_cast<int64_t>(number));
  }

  void finish_list() {
    if (field_ == "shape") {
      entry_->shape = numbers_;
      return;
    }
    if (numbers_.size() != 2) fail_unexpected(2, cat(numbers_.size(), " of them"));
    entry_->begin = numbers_[0];
    entry_->end = numbers_[1];
  }

  void check_complete() const {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) {
        fail(cat("tensor ", shown(name_, kMaxShown), " lacks ", field));
      }
    }
  }

  static std::string kind_of(const json& value) {
    if (value.is_null()) return "null";
    if (value.is_boolean()) return "a boolean";
    if (value.is_string()) return "a string";
    if (value.is_number_unsigned()) return "a number";
    return value.is_number_float() ? "a number that is not whole or too large"
                                   : "a negative number";
  }

  static constexpr size_t kMaxShown = 100;

  const std::string& file_;
  SafetensorsHeader header_;
  std::string name_, field_;  // of a tensor and its field, or __metadata__ and its key
  bool in_metadata_ = false, has_metadata_ = false;
  SafetensorsEntry* entry_ = nullptr;
  std::set<std::string> fields_;  // of the object being read
  std::vector<int64_t> numbers_;  // of the list being read
};

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

// Finds the JSON between the length and the data.
std::string_view header_text(std::string_view bytes, int64_t file_bytes, const std::string& file) {
  if (file_bytes < 8 || bytes.size() < 8) {
    fail_invalid(file, cat("it has ", file_bytes, " bytes, fewer than the 8 of the header length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    fail_invalid(file, cat("it claims a header of ", length, " bytes, the limit is ",
                           kMaxSafetensorsHeader));
  }
  if (length > static_cast<uint64_t>(file_bytes) - 8 || length > bytes.size() - 8) {
    fail_invalid(file, cat("it claims a header of ", length, " bytes and ends after ",
                           file_bytes - 8, "; it may be truncated"));
  }
  const auto text = bytes.substr(8, length);
  if (text.empty() || text.front() != '{') fail_invalid(file, "its header does not begin with '{'");
  // Refuses a raw NUL, which the JSON reader takes for the end of input.
  if (text.find('\0') != text.npos) fail_invalid(file, "its header holds a NUL byte");
  return text;
}

void check_size(const std::string& name, const SafetensorsEntry& entry, const std::string& file) {
  if (entry.begin > entry.end) {
    fail_invalid(file, cat("tensor '", name, "' begins at ", entry.begin, " and ends before, at ",
                           entry.end));
  }
  const std::string what = cat("'", file, "': tensor '", name, "'");
  int64_t bytes = dtype_bytes(entry.dtype);
  for (const int64_t side : entry.shape) bytes = checked_mul(bytes, side, what);
  if (bytes != entry.end - entry.begin) {
    fail_invalid(file, cat("tensor '", name, "' needs ", bytes,
                           " bytes for its shape and type and has ", entry.end - entry.begin));
  }
}

// Checks that entries, in the order of the data, cover the data without gaps.
void check_tiling(const SafetensorsHeader& header, int64_t data_bytes, const std::string& file) {
  std::vector<const std::pair<const std::string, SafetensorsEntry>*> order;
  for (const auto& item : header.entries) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t reached = 0;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    if (entry.begin != reached) {
      fail_invalid(file, cat("tensor '", name, "' begins at ", entry.begin, " of the data where ",
                             reached, " was expected, so there is ",
                             entry.begin > reached ? "a hole" : "an overlap"));
    }
    if (entry.end > data_bytes) {
      fail_invalid(file, cat("tensor '", name, "' ends at ", entry.end, " of ", data_bytes,
                             " bytes of data; the file may be truncated"));
    }
    reached = entry.end;
  }
  if (reached != data_bytes) {
    fail_invalid(file, cat(data_bytes - reached, " bytes after the last tensor belong to none"));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view bytes, int64_t file_bytes,
                                           const std::string& file) {
  const auto text = header_text(bytes, file_bytes, file);
  SafetensorsHeader header = HeaderReader(file).read(text);
  header.data_offset = static_cast<int64_t>(text.size()) + 8;
  for (const auto& [name, entry] : header.entries) check_size(name, entry, file);
  check_tiling(header, file_bytes - header.data_offset, file);
  return header;
}

}  // namespace tost
