#include "tost/io/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/torch_dtype.h"

namespace tost {
namespace {

constexpr size_t kMaxRank = 64;  // what torch's iterators take

// Names may hold anything; a message shows the beginning.
std::string shown(const std::string& name) {
  std::string text = name.substr(0, 100);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return "'" + text + (name.size() > 100 ? "…'" : "'");
}

// Fills `header.entries` and `header.metadata`; checks structure and types, not sizes. Throws data
// Errors.
class SafetensorsSax : public nlohmann::json::json_sax_t {
 public:
  SafetensorsSax(SafetensorsHeader& header, const std::string& file)
      : header_(header), file_(file) {}

  bool null() override {
    if (expect_ != Expect::kMetadataObject) fail_unexpected("null");
    expect_ = Expect::kTensorName;  // the reference takes it for absent metadata
    return true;
  }

  bool boolean(bool) override { fail_unexpected("a boolean"); }

  bool number_integer(number_integer_t) override { fail_unexpected("a negative number"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (expect_ != Expect::kShapeNumber && expect_ != Expect::kOffsetsNumber)
      fail_unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail_unexpected(cat("the impossible size ", value));
    }
    const auto size = static_cast<int64_t>(value);
    if (expect_ == Expect::kShapeNumber) {
      if (entry_->shape.size() == kMaxRank) fail(shown(name_) + " has more than 64 dimensions");
      entry_->shape.push_back(size);
      return true;
    }
    if (offsets_ == 2) fail_unexpected("a third one");
    (offsets_ == 0 ? entry_->begin : entry_->end) = size;
    ++offsets_;
    return true;
  }

  bool number_float(number_float_t, const string_t&) override {
    fail_unexpected("a number that is not whole or too large");
  }

  bool string(string_t& value) override {
    if (expect_ == Expect::kMetadataValue) {
      header_.metadata[name_] = std::move(value);
      expect_ = Expect::kMetadataKey;
      return true;
    }
    if (expect_ != Expect::kDtype) fail_unexpected("a string");
    if (safetensors_dtype_bytes(value) == 0) {
      fail_data("'", file_, "': tensor ", shown(name_), " has the type ", shown(value),
                ", which is none of those this program reads.");
    }
    entry_->dtype = std::move(value);
    expect_ = Expect::kField;
    return true;
  }

  bool binary(binary_t&) override { fail_unexpected("binary data"); }

  bool start_object(size_t) override {
    switch (expect_) {
      case Expect::kRoot:
        expect_ = Expect::kTensorName;
        return true;
      case Expect::kMetadataObject:
        expect_ = Expect::kMetadataKey;
        return true;
      case Expect::kTensorObject:
        expect_ = Expect::kField;
        return true;
      default:
        fail_unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    if (expect_ == Expect::kField) {
      start_field(name);
      return true;
    }
    name_ = std::move(name);
    if (expect_ == Expect::kMetadataKey) {
      if (header_.metadata.count(name_) != 0) fail("metadata " + shown(name_) + " appears twice");
      expect_ = Expect::kMetadataValue;
    } else if (name_ == "__metadata__") {
      if (has_metadata_) fail("__metadata__ appears twice");
      has_metadata_ = true;
      expect_ = Expect::kMetadataObject;
    } else {
      const auto [place, fresh] = header_.entries.try_emplace(name_);
      if (!fresh) fail("tensor " + shown(name_) + " appears twice");
      entry_ = &place->second;
      has_dtype_ = has_shape_ = false;
      offsets_ = -1;
      expect_ = Expect::kTensorObject;
    }
    return true;
  }

  bool end_object() override {
    if (expect_ == Expect::kField) {
      const char* lacking = !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets";
      if (!has_dtype_ || !has_shape_ || offsets_ < 0)
        fail("tensor " + shown(name_) + " lacks " + lacking);
      expect_ = Expect::kTensorName;
    } else if (expect_ == Expect::kMetadataKey) {
      expect_ = Expect::kTensorName;
    } else {
      expect_ = Expect::kNothing;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (expect_ == Expect::kShape) {
      expect_ = Expect::kShapeNumber;
    } else if (expect_ == Expect::kOffsets) {
      offsets_ = 0;
      expect_ = Expect::kOffsetsNumber;
    } else {
      fail_unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (expect_ == Expect::kOffsetsNumber && offsets_ != 2) {
      fail_unexpected(cat(offsets_, " of them"));
    }
    expect_ = Expect::kField;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(cat("its header is not JSON at byte ", position));
  }

 private:
  // What the next event may be.
  enum class Expect {
    kRoot,            // the outermost object
    kTensorName,      // key of the outermost object, or its end
    kMetadataObject,  // value of __metadata__
    kMetadataKey,     // or its end
    kMetadataValue,
    kTensorObject,
    kField,  // key of a tensor's object, or its end
    kDtype,
    kShape,        // the array itself
    kShapeNumber,  // or its end
    kOffsets,
    kOffsetsNumber,
    kNothing,
  };

  [[noreturn]] void fail(const std::string& what) const {
    fail_data("'", file_, "' is not a valid safetensors file: ", what, ".");
  }

  [[noreturn]] void fail_unexpected(const std::string& found) const {
    const std::string where = name_.empty() ? "the header" : shown(name_);
    switch (expect_) {
      case Expect::kRoot:
        fail("the header must be a JSON object, found " + found);
      case Expect::kMetadataObject:
        fail("__metadata__ must be an object of strings, found " + found);
      case Expect::kMetadataValue:
        fail("metadata " + where + " must be a string, found " + found);
      case Expect::kDtype:
        fail("the dtype of " + where + " must be a string, found " + found);
      case Expect::kShape:
      case Expect::kShapeNumber:
        fail("the shape of " + where + " must be a list of integers, found " + found);
      case Expect::kOffsets:
      case Expect::kOffsetsNumber:
        fail("the data_offsets of " + where + " must be two integers, found " + found);
      default:
        fail(where + " must be an object with dtype, shape and data_offsets, found " + found);
    }
  }

  void start_field(const std::string& field) {
    const auto once = [&](bool seen) {
      if (seen) fail("tensor " + shown(name_) + " has '" + field + "' twice");
    };
    if (field == "dtype") {
      once(has_dtype_);
      has_dtype_ = true;
      expect_ = Expect::kDtype;
    } else if (field == "shape") {
      once(has_shape_);
      has_shape_ = true;
      expect_ = Expect::kShape;
    } else if (field == "data_offsets") {
      once(offsets_ >= 0);
      expect_ = Expect::kOffsets;
    } else {
      fail("tensor " + shown(name_) + " has the unknown field " + shown(field));
    }
  }

  SafetensorsHeader& header_;
  const std::string& file_;
  Expect expect_ = Expect::kRoot;
  std::string name_;  // tensor or metadata key being read
  SafetensorsEntry* entry_ = nullptr;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false;
  int offsets_ = -1;  // numbers read, -1 before the array
};

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

[[noreturn]] void fail_invalid(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid safetensors file: ", what, ".");
}

// The JSON between the length and the data.
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
  // The JSON reader takes a raw NUL for the end of its input.
  if (text.find('\0') != text.npos) fail_invalid(file, "its header holds a NUL byte");
  return text;
}

void check_size(const std::string& name, const SafetensorsEntry& entry, const std::string& file) {
  if (entry.begin > entry.end) {
    fail_invalid(file, cat("tensor '", name, "' begins at ", entry.begin, " and ends before, at ",
                           entry.end));
  }
  const std::string what = cat("'", file, "': tensor '", name, "'");
  int64_t bytes = safetensors_dtype_bytes(entry.dtype);
  for (const int64_t side : entry.shape) bytes = checked_mul(bytes, side, what);
  if (bytes != entry.end - entry.begin) {
    fail_invalid(file, cat("tensor '", name, "' needs ", bytes,
                           " bytes for its shape and type and has ", entry.end - entry.begin));
  }
}

// Entries in the order of the data follow each other from 0 to its end.
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

int64_t safetensors_dtype_bytes(std::string_view dtype) {
  const TorchDtypeInfo* info = find_safetensors_dtype(dtype);
  return info != nullptr ? info->bytes : 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view bytes, int64_t file_bytes,
                                           const std::string& file) {
  const auto text = header_text(bytes, file_bytes, file);
  SafetensorsHeader header;
  SafetensorsSax sax(header, file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &sax);
  header.data_offset = static_cast<int64_t>(text.size()) + 8;
  for (const auto& [name, entry] : header.entries) check_size(name, entry, file);
  check_tiling(header, file_bytes - header.data_offset, file);
  return header;
}

}  // namespace tost
