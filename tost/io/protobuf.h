// Writing messages of Protocol Buffers (protobuf.dev, Encoding): the wire format alone, no schemas.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace tost {

template <class UInt>
void put_little_endian(std::string& out, UInt value) {
  for (size_t i = 0; i < sizeof(UInt); ++i) out.push_back(char(value >> (8 * i)));
}

// A message, field by field in the order of the calls.
class Protobuf {
 public:
  Protobuf& varint(int field, int64_t value) {
    tag(field, 0);
    put_varint(uint64_t(value));
    return *this;
  }
  Protobuf& real(int field, double value) {
    tag(field, 1);
    put_little_endian(text_, std::bit_cast<uint64_t>(value));
    return *this;
  }
  Protobuf& real32(int field, float value) {
    tag(field, 5);
    put_little_endian(text_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  // A string, bytes, or a message within this one.
  Protobuf& bytes(int field, std::string_view value) {
    tag(field, 2);
    put_varint(value.size());
    text_.append(value);
    return *this;
  }
  Protobuf& message(int field, const Protobuf& value) { return bytes(field, value.text_); }

  const std::string& text() const { return text_; }

 private:
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(char(value | 0x80));
    text_.push_back(char(value));
  }
  void tag(int field, int type) { put_varint(uint64_t(field) << 3 | uint64_t(type)); }

  std::string text_;
};

}  // namespace tost
