#include "tost/io/torch_calls.h"

#include <set>

#include "tost/base/error.h"
#include "tost/io/pickle_scan.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_strings.h"

namespace tost {
namespace {

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
