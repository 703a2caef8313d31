#include "tost/io/safetensors_sax.h"

#include <limits>

#include "tost/base/error.h"

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

}  // namespace

void SafetensorsSax::fail(const std::string& what) const {
  fail_data("'", file_, "' is not a valid safetensors file: ", what, ".");
}

void SafetensorsSax::fail_unexpected(const std::string& found) const {
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
      fail("the shape of " + where + " must be a list of whole numbers, found " + found);
    case Expect::kOffsets:
    case Expect::kOffsetsNumber:
      fail("the data_offsets of " + where + " must be two whole numbers, found " + found);
    default:
      fail(where + " must be an object with dtype, shape and data_offsets, found " + found);
  }
}

bool SafetensorsSax::null() {
  if (expect_ != Expect::kMetadataObject) fail_unexpected("null");
  expect_ = Expect::kTensorName;  // the reference takes it for absent metadata
  return true;
}

bool SafetensorsSax::boolean(bool) {
  fail_unexpected("a boolean");
}
bool SafetensorsSax::number_integer(number_integer_t) {
  fail_unexpected("a negative number");
}
bool SafetensorsSax::number_float(number_float_t, const string_t&) {
  fail_unexpected("a number that is not whole or too large");
}
bool SafetensorsSax::binary(binary_t&) {
  fail_unexpected("binary data");
}

bool SafetensorsSax::number_unsigned(number_unsigned_t value) {
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

bool SafetensorsSax::string(string_t& value) {
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

bool SafetensorsSax::start_object(size_t) {
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

bool SafetensorsSax::key(string_t& name) {
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

void SafetensorsSax::start_field(const std::string& field) {
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

bool SafetensorsSax::end_object() {
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

bool SafetensorsSax::start_array(size_t) {
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

bool SafetensorsSax::end_array() {
  if (expect_ == Expect::kOffsetsNumber && offsets_ != 2) {
    fail_unexpected(cat(offsets_, " of them"));
  }
  expect_ = Expect::kField;
  return true;
}

bool SafetensorsSax::parse_error(size_t position, const std::string&,
                                 const nlohmann::json::exception&) {
  fail(cat("its header is not JSON at byte ", position));
}

}  // namespace tost
