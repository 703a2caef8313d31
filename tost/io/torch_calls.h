// What unpickling would do, as a list to read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tost {

struct PickleLine {
  uint64_t offset = 0;
  std::string op;      // "REDUCE"
  std::string text;    // the argument, safe to show
  std::string effect;  // what Python would do: "import os.system", "call"; "" where only data moves
};

struct PickleListing {
  std::vector<PickleLine> lines;
  std::vector<std::pair<std::string, std::string>> names;  // module and name, in order, once each
  // Imports whose names are in no string of the pickle (put together by calls, extension codes), or
  // too long or too many to list.
  int64_t unknown_imports = 0;
  std::string error;  // why the list ends early; "" where it is whole
  uint64_t end = 0;   // the byte after the last opcode
};

// The opcodes of one pickle at the beginning of `bytes`, from first to last, whatever order they
// would be refused in; at most `most` lines, and the names up to the last opcode. The names
// that STACK_GLOBAL takes from stack and memo are followed there; an import that cannot be followed
// is counted. Never throws for what is in the bytes.
PickleListing list_pickle(std::string_view bytes, size_t most);

}  // namespace tost
