#include "tost/io/torch_strings.h"

#include <charconv>

namespace tost {
namespace {

constexpr size_t kMost = 1'000'000;  // on the stack, and in the memo
constexpr char kMarkText[] = "(";
constexpr std::string_view kMark(kMarkText, 1);  // known by its address

bool is_mark(std::string_view entry) {
  return entry.data() == kMark.data();
}

// A decimal index, of which Python would read more spellings; false for those.
bool read_index(std::string_view line, uint64_t& index) {
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, index);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string_view PickleStrings::at(size_t down) const {
  if (lost_ || down >= stack_.size()) return {};
  const std::string_view entry = stack_[stack_.size() - 1 - down];
  return is_mark(entry) ? std::string_view() : entry;
}

void PickleStrings::run(const PickleStep& step) {
  if (lost_ || run_text(step) || run_stack(step) || run_memo(step) || run_values(step)) return;
  // PROTO, FRAME, STOP and READONLY_BUFFER leave the stack as it is.
}

void PickleStrings::lose() {
  lost_ = true;
  stack_ = {};
  memo_ = {};
}

void PickleStrings::push(std::string_view text) {
  if (stack_.size() >= kMost) return lose();
  stack_.push_back(text);
}

void PickleStrings::pop(size_t count) {
  for (size_t i = 0; i < count && !lost_; ++i) {
    if (stack_.empty() || is_mark(stack_.back())) return lose();
    stack_.pop_back();
  }
}

void PickleStrings::pop_mark() {
  while (!stack_.empty() && !is_mark(stack_.back())) stack_.pop_back();
  if (stack_.empty()) return lose();
  stack_.pop_back();
}

bool PickleStrings::run_text(const PickleStep& step) {
  std::string_view text = step.arg;
  switch (step.op->code) {
    case 'X':
    case 'U':
    case 'T':
    case 0x8c:
    case 0x8d:
      push(text);
      return true;
    case 'S':
    case 'V':  // escapes are not followed
      if (step.op->code == 'S') {
        text = text.size() < 2 ? std::string_view() : text.substr(1, text.size() - 2);
      }
      push(text.find('\\') == text.npos ? text : std::string_view());
      return true;
    default:
      return false;
  }
}

bool PickleStrings::run_stack(const PickleStep& step) {
  switch (step.op->code) {
    case '(':
      push(kMark);
      return true;
    case '0':
      if (!stack_.empty() && is_mark(stack_.back())) {
        stack_.pop_back();
      } else {
        pop(1);
      }
      return true;
    case '1':
    case 'e':
    case 'u':
    case 0x90:
      pop_mark();
      return true;
    case '2':
      if (stack_.empty() || is_mark(stack_.back())) {
        lose();
      } else {
        push(stack_.back());
      }
      return true;
    case 'a':
    case 'b':
      pop(1);
      return true;
    case 's':
      pop(2);
      return true;
    case 't':
    case 'l':
    case 'd':
    case 'o':
    case 'i':
    case 0x91:
      pop_mark();
      push_unknown();
      return true;
    default:
      return false;
  }
}

bool PickleStrings::run_memo(const PickleStep& step) {
  uint64_t index = 0;
  switch (step.op->code) {
    case 'p':
      if (read_index(step.arg, index)) {
        remember(index);
      } else {
        lose();
      }
      return true;
    case 'q':
    case 'r':
      remember(pickle_unsigned(step.arg));
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    case 'g':
      if (read_index(step.arg, index)) {
        recall(index);
      } else {
        push_unknown();
      }
      return true;
    case 'h':
    case 'j':
      recall(pickle_unsigned(step.arg));
      return true;
    default:
      return false;
  }
}

// Whatever takes values and leaves one of which nothing is known.
bool PickleStrings::run_values(const PickleStep& step) {
  switch (step.op->code) {
    case 0x80:
    case 0x95:
    case 0x98:
    case '.':
      return false;
    case 'R':
    case 0x81:
    case 0x86:
    case 0x93:
      pop(2);
      break;
    case 0x87:
    case 0x92:
      pop(3);
      break;
    case 0x85:
    case 'Q':
      pop(1);
      break;
    default:
      break;  // a number, bytes, an empty container, a class
  }
  push_unknown();
  return true;
}

void PickleStrings::remember(uint64_t index) {
  if (memo_.size() >= kMost || stack_.empty() || is_mark(stack_.back())) return lose();
  memo_[index] = stack_.back();
}

void PickleStrings::recall(uint64_t index) {
  const auto found = memo_.find(index);
  push(found == memo_.end() ? std::string_view() : found->second);
}

}  // namespace tost
