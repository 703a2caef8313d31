// The opcodes of a pickle one after the other, with their arguments in place. Nothing is
// interpreted and nothing is copied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tost {

// How an opcode's argument is written.
enum class PickleArg : uint8_t {
  kNone,
  kFixed1,  // that many bytes
  kFixed2,
  kFixed4,
  kFixed8,
  kLine,  // up to a newline
  kTwoLines,
  kCounted1,  // a length of that many bytes, then the argument
  kCounted4,
  kCounted8,
};

struct PickleOp {
  uint8_t code;
  uint8_t protocol;  // the first that has it
  PickleArg arg;
  const char* name;  // as Python's pickletools calls it
};

// nullptr where no protocol up to 5 has such an opcode.
const PickleOp* find_pickle_op(uint8_t code);

struct PickleStep {
  const PickleOp* op = nullptr;
  uint32_t offset = 0;      // of the opcode
  std::string_view arg;     // without length or newline; the first of two lines
  std::string_view second;  // the second of two lines
};

class PickleScanner {
 public:
  // `where` names file and entry in messages. Pickles of more than 1 GiB are refused.
  PickleScanner(std::string_view bytes, std::string where);

  // The next opcode. Throws a data Error naming the byte where there is none, where it is unknown,
  // or where its argument or its frame does not fit. Not to be called after STOP.
  PickleStep next();
  // The byte after the last opcode.
  size_t position() const { return at_; }
  const std::string& where() const { return where_; }

  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

 private:
  std::string_view take(uint64_t count, const PickleStep& step);
  std::string_view take_line(const PickleStep& step);
  void begin_frame(const PickleStep& step);

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
  size_t frame_end_ = 0;  // 0 outside of frames
};

// Numbers in arguments.
uint64_t pickle_unsigned(std::string_view little_endian);  // of up to 8 bytes
int64_t pickle_signed(std::string_view little_endian);     // two's complement, of up to 8 bytes
double pickle_double(std::string_view big_endian);         // of 8 bytes

}  // namespace tost
