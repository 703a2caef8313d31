#include "tost/io/pickle_scan.h"

#include <array>
#include <bit>
#include <utility>

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr size_t kMaxLine = size_t{1} << 20;

using enum PickleArg;
constexpr PickleOp kOps[] = {
    {'(', 0, kNone, "MARK"},
    {'.', 0, kNone, "STOP"},
    {'0', 0, kNone, "POP"},
    {'1', 1, kNone, "POP_MARK"},
    {'2', 0, kNone, "DUP"},
    {'F', 0, kLine, "FLOAT"},
    {'I', 0, kLine, "INT"},
    {'J', 1, kFixed4, "BININT"},
    {'K', 1, kFixed1, "BININT1"},
    {'L', 0, kLine, "LONG"},
    {'M', 1, kFixed2, "BININT2"},
    {'N', 0, kNone, "NONE"},
    {'P', 0, kLine, "PERSID"},
    {'Q', 1, kNone, "BINPERSID"},
    {'R', 0, kNone, "REDUCE"},
    {'S', 0, kLine, "STRING"},
    {'T', 1, kCounted4, "BINSTRING"},
    {'U', 1, kCounted1, "SHORT_BINSTRING"},
    {'V', 0, kLine, "UNICODE"},
    {'X', 1, kCounted4, "BINUNICODE"},
    {'a', 0, kNone, "APPEND"},
    {'b', 0, kNone, "BUILD"},
    {'c', 0, kTwoLines, "GLOBAL"},
    {'d', 0, kNone, "DICT"},
    {'}', 1, kNone, "EMPTY_DICT"},
    {'e', 1, kNone, "APPENDS"},
    {'g', 0, kLine, "GET"},
    {'h', 1, kFixed1, "BINGET"},
    {'i', 0, kTwoLines, "INST"},
    {'j', 1, kFixed4, "LONG_BINGET"},
    {'l', 0, kNone, "LIST"},
    {']', 1, kNone, "EMPTY_LIST"},
    {'o', 1, kNone, "OBJ"},
    {'p', 0, kLine, "PUT"},
    {'q', 1, kFixed1, "BINPUT"},
    {'r', 1, kFixed4, "LONG_BINPUT"},
    {'s', 0, kNone, "SETITEM"},
    {'t', 0, kNone, "TUPLE"},
    {')', 1, kNone, "EMPTY_TUPLE"},
    {'u', 1, kNone, "SETITEMS"},
    {'G', 1, kFixed8, "BINFLOAT"},
    {0x80, 2, kFixed1, "PROTO"},
    {0x81, 2, kNone, "NEWOBJ"},
    {0x82, 2, kFixed1, "EXT1"},
    {0x83, 2, kFixed2, "EXT2"},
    {0x84, 2, kFixed4, "EXT4"},
    {0x85, 2, kNone, "TUPLE1"},
    {0x86, 2, kNone, "TUPLE2"},
    {0x87, 2, kNone, "TUPLE3"},
    {0x88, 2, kNone, "NEWTRUE"},
    {0x89, 2, kNone, "NEWFALSE"},
    {0x8a, 2, kCounted1, "LONG1"},
    {0x8b, 2, kCounted4, "LONG4"},
    {'B', 3, kCounted4, "BINBYTES"},
    {'C', 3, kCounted1, "SHORT_BINBYTES"},
    {0x8c, 4, kCounted1, "SHORT_BINUNICODE"},
    {0x8d, 4, kCounted8, "BINUNICODE8"},
    {0x8e, 4, kCounted8, "BINBYTES8"},
    {0x8f, 4, kNone, "EMPTY_SET"},
    {0x90, 4, kNone, "ADDITEMS"},
    {0x91, 4, kNone, "FROZENSET"},
    {0x92, 4, kNone, "NEWOBJ_EX"},
    {0x93, 4, kNone, "STACK_GLOBAL"},
    {0x94, 4, kNone, "MEMOIZE"},
    {0x95, 4, kFixed8, "FRAME"},
    {0x96, 5, kCounted8, "BYTEARRAY8"},
    {0x97, 5, kNone, "NEXT_BUFFER"},
    {0x98, 5, kNone, "READONLY_BUFFER"},
};

constexpr auto kByCode = [] {
  std::array<int8_t, 256> table{};
  table.fill(-1);
  for (size_t i = 0; i < std::size(kOps); ++i) table[kOps[i].code] = static_cast<int8_t>(i);
  return table;
}();

uint64_t fixed_size(PickleArg arg) {
  switch (arg) {
    case kFixed1:
    case kCounted1:
      return 1;
    case kFixed2:
      return 2;
    case kFixed4:
    case kCounted4:
      return 4;
    case kFixed8:
    case kCounted8:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

const PickleOp* find_pickle_op(uint8_t code) {
  return kByCode[code] < 0 ? nullptr : &kOps[kByCode[code]];
}

PickleScanner::PickleScanner(std::string_view bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)) {
  if (bytes.size() > kMaxBytes) {
    fail_data(where_, " is a pickle of ", bytes.size(), " bytes; the limit is ", kMaxBytes, ".");
  }
}

void PickleScanner::fail(uint64_t offset, const std::string& what) const {
  fail_data(where_, " is refused at byte ", offset, " of its pickle: ", what, ".");
}

PickleStep PickleScanner::next() {
  if (frame_end_ != 0 && at_ >= frame_end_) frame_end_ = 0;
  PickleStep step;
  step.offset = static_cast<uint32_t>(at_);
  if (at_ >= bytes_.size()) fail(at_, "it ends without STOP; the file may be truncated");
  const auto code = static_cast<unsigned char>(bytes_[at_++]);
  step.op = find_pickle_op(code);
  if (step.op == nullptr) {
    fail(step.offset, cat("there is no opcode ", int{code}, " in protocols up to 5"));
  }
  const PickleArg arg = step.op->arg;
  if (arg == kLine || arg == kTwoLines) {
    step.arg = take_line(step);
    if (arg == kTwoLines) step.second = take_line(step);
    return step;
  }
  step.arg = take(fixed_size(arg), step);
  if (arg >= kCounted1) step.arg = take(pickle_unsigned(step.arg), step);
  if (code == 0x95) begin_frame(step);
  if (code == '.' && frame_end_ > at_) fail(step.offset, "STOP stands inside a frame");
  return step;
}

std::string_view PickleScanner::take(uint64_t count, const PickleStep& step) {
  const size_t end = frame_end_ != 0 ? frame_end_ : bytes_.size();
  if (count > end - at_) {
    fail(step.offset, cat(step.op->name, " needs ", count, " bytes where ", end - at_,
                          frame_end_ != 0 ? " are left in its frame" : " are left"));
  }
  const auto taken = bytes_.substr(at_, count);
  at_ += count;
  return taken;
}

std::string_view PickleScanner::take_line(const PickleStep& step) {
  const size_t end = frame_end_ != 0 ? frame_end_ : bytes_.size();
  const auto window = bytes_.substr(at_, end - at_).substr(0, kMaxLine);
  const size_t length = window.find('\n');
  if (length == window.npos) {
    fail(step.offset, cat("the line after ", step.op->name, " does not end"));
  }
  at_ += length + 1;
  return window.substr(0, length);
}

void PickleScanner::begin_frame(const PickleStep& step) {
  const uint64_t length = pickle_unsigned(step.arg);
  if (frame_end_ != 0 && at_ != frame_end_) fail(step.offset, "a frame begins inside another");
  if (length > bytes_.size() - at_) {
    fail(step.offset,
         cat("a frame of ", length, " bytes begins where ", bytes_.size() - at_, " are left"));
  }
  frame_end_ = at_ + length;
}

uint64_t pickle_unsigned(std::string_view little_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < little_endian.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(little_endian[i])} << (8 * i);
  }
  return value;
}

int64_t pickle_signed(std::string_view little_endian) {
  if (little_endian.empty()) return 0;
  const size_t unused = 64 - 8 * little_endian.size();
  return static_cast<int64_t>(pickle_unsigned(little_endian) << unused) >> unused;
}

double pickle_double(std::string_view big_endian) {
  uint64_t bits = 0;
  for (const char c : big_endian) bits = bits << 8 | static_cast<unsigned char>(c);
  return std::bit_cast<double>(bits);
}

}  // namespace tost
