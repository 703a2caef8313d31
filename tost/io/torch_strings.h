// Where the strings of a pickle are while it runs: on the stack, in the memo, or gone.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tost/io/pickle_scan.h"

namespace tost {

// Follows every opcode as Python's unpickler does, the ones that the pickle machine refuses
// included, but knows only strings; everything else is a value of which nothing is known. Where it
// cannot follow (a stack that is too short, a memo index it cannot read) nothing is known any more.
class PickleStrings {
 public:
  void run(const PickleStep& step);

  // The string `down` places below the top of the stack; its data() is null where it is unknown.
  std::string_view at(size_t down) const;

 private:
  void push(std::string_view text);
  void push_unknown() { push({}); }
  void pop(size_t count);
  void pop_mark();
  // Each returns false for an opcode of another group.
  bool run_text(const PickleStep& step);
  bool run_stack(const PickleStep& step);
  bool run_memo(const PickleStep& step);
  bool run_values(const PickleStep& step);
  void remember(uint64_t index);
  void recall(uint64_t index);
  void lose();

  std::vector<std::string_view> stack_;
  std::unordered_map<uint64_t, std::string_view> memo_;
  bool lost_ = false;
};

}  // namespace tost
