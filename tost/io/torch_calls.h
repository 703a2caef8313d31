// What unpickling would do, as a list to read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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
  std::string error;  // why the list ends early; "" where it is whole
  uint64_t end = 0;   // the byte after the last opcode
};

// The opcodes of one pickle at the beginning of `bytes`, from first to last, whatever order they
// would be refused in; at most `most` lines, and names for as long as the opcodes go on. Names
// that STACK_GLOBAL takes from the stack are those of the last two strings. Never throws for what
// is in the bytes.
PickleListing list_pickle(std::string_view bytes, size_t most);

}  // namespace tost
