#include "tost/io/torch_calls.h"

#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tost/base/error.h"
#include "tost/io/pickle_scan.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

// Where the strings of a pickle are while it runs: on the stack, in the memo, or gone.

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

// Follows every opcode as Python's unpickler does, the ones that the pickle machine refuses
// included, but knows only strings; everything else is a value of which nothing is known. Where it
// cannot follow (a stack that is too short, a memo index it cannot read) nothing is known any more.
class PickleStrings {
 public:
  void run(const PickleStep& step) {
    if (lost_ || run_text(step) || run_stack(step) || run_memo(step) || run_values(step)) return;
    // PROTO, FRAME, STOP and READONLY_BUFFER leave the stack as it is.
  }

  // The string `down` places below the top of the stack; its data() is null where it is unknown.
  std::string_view at(size_t down) const {
    if (lost_ || down >= stack_.size()) return {};
    const std::string_view entry = stack_[stack_.size() - 1 - down];
    return is_mark(entry) ? std::string_view() : entry;
  }

 private:
  void push(std::string_view text) {
    if (stack_.size() >= kMost) return lose();
    stack_.push_back(text);
  }

  void push_unknown() { push({}); }
  void pop(size_t count) {
    for (size_t i = 0; i < count && !lost_; ++i) {
      if (stack_.empty() || is_mark(stack_.back())) return lose();
      stack_.pop_back();
    }
  }

  void pop_mark() {
    while (!stack_.empty() && !is_mark(stack_.back())) stack_.pop_back();
    if (stack_.empty()) return lose();
    stack_.pop_back();
  }

  // Each returns false for an opcode of another group.
  bool run_text(const PickleStep& step) {
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

  bool run_stack(const PickleStep& step) {
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

  bool run_memo(const PickleStep& step) {
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
  bool run_values(const PickleStep& step) {
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

  void remember(uint64_t index) {
    if (memo_.size() >= kMost || stack_.empty() || is_mark(stack_.back())) return lose();
    memo_[index] = stack_.back();
  }

  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    push(found == memo_.end() ? std::string_view() : found->second);
  }

  void lose() {
    lost_ = true;
    stack_ = {};
    memo_ = {};
  }

  std::vector<std::string_view> stack_;
  std::unordered_map<uint64_t, std::string_view> memo_;
  bool lost_ = false;
};

std::string argument(const PickleStep& step) {
  switch (step.op->arg) {
    case PickleArg::kNone:
      return "";
    case PickleArg::kFixed1:
    case PickleArg::kFixed2:
    case PickleArg::kFixed4:
    case PickleArg::kFixed8:
      if (step.op->code == 'G') return cat(pickle_double(step.arg));
      if (step.op->code == 'J') return cat(pickle_signed(step.arg));
      return cat(pickle_unsigned(step.arg));
    case PickleArg::kTwoLines:
      return shown(step.arg) + " " + shown(step.second);
    default:
      break;
  }
  const bool number = step.op->code == 0x8a || step.op->code == 0x8b;
  if (number && step.arg.size() <= 8) return cat(pickle_signed(step.arg));
  return shown(step.arg, 120);
}

const char* effect_of(uint8_t code) {
  switch (code) {
    case 'R':
    case 'o':
      return "call";
    case 0x81:
    case 0x92:
      return "make an object";
    case 'b':
      return "set its state";
    case 'Q':
    case 'P':
      return "load from outside of the pickle";
    case 0x82:
    case 0x83:
    case 0x84:
      return "import what an extension code stands for";
    default:
      return "";
  }
}

class Lister {
 public:
  Lister(std::string_view bytes, size_t most) : scanner_(bytes, "the pickle"), most_(most) {}

  PickleListing run() {
    try {
      while (true) {
        const PickleStep step = scanner_.next();
        add(step);
        if (step.op->code == '.') break;
      }
    } catch (const Error& error) {
      listing_.error = error.what();
    }
    listing_.end = scanner_.position();
    return std::move(listing_);
  }

 private:
  void add(const PickleStep& step) {
    const uint8_t code = step.op->code;
    std::string effect = effect_of(code);
    if (code == 'c' || code == 'i') {
      effect = import(step.arg, step.second) + (code == 'i' ? " and call it" : "");
    } else if (code == 0x93) {
      effect = import(strings_.at(1), strings_.at(0));
    } else if (code >= 0x82 && code <= 0x84) {
      ++listing_.unknown_imports;
    }
    strings_.run(step);
    if (listing_.lines.size() < most_) {
      listing_.lines.push_back({step.offset, step.op->name, argument(step), std::move(effect)});
    }
  }

  // Notes it, and says it.
  std::string import(std::string_view module, std::string_view last) {
    constexpr size_t kMostNames = 10'000, kLongest = 512;
    if (module.data() == nullptr || last.data() == nullptr) {
      ++listing_.unknown_imports;
      return "import a name put together earlier";
    }
    const bool fits = module.size() <= kLongest && last.size() <= kLongest;
    std::pair<std::string, std::string> pair(module.substr(0, kLongest), last.substr(0, kLongest));
    if (fits && seen_.size() < kMostNames) {
      if (seen_.insert(pair).second) listing_.names.push_back(std::move(pair));
    } else if (!fits || seen_.count(pair) == 0) {
      ++listing_.unknown_imports;
    }
    return "import " + escaped(module) + "." + escaped(last);
  }

  PickleScanner scanner_;
  size_t most_;
  PickleListing listing_;
  std::set<std::pair<std::string, std::string>> seen_;
  PickleStrings strings_;
};

}  // namespace

PickleListing list_pickle(std::string_view bytes, size_t most) {
  return Lister(bytes.substr(0, size_t{1} << 30), most).run();
}

}  // namespace tost
