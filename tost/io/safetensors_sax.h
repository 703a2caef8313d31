// Reads the header's JSON event by event, so that duplicates are seen and nothing foreign is ever
// built.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tost/io/safetensors_header.h"

namespace tost {

// Fills `header.entries` and `header.metadata`; checks structure and types, not sizes. Throws data
// Errors.
class SafetensorsSax : public nlohmann::json::json_sax_t {
 public:
  SafetensorsSax(SafetensorsHeader& header, const std::string& file)
      : header_(header), file_(file) {}

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override;

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

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_unexpected(const std::string& found) const;
  void start_field(const std::string& field);

  SafetensorsHeader& header_;
  const std::string& file_;
  Expect expect_ = Expect::kRoot;
  std::string name_;  // tensor or metadata key being read
  SafetensorsEntry* entry_ = nullptr;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false;
  int offsets_ = -1;  // numbers read, -1 before the array
};

}  // namespace tost
