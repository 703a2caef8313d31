// Pickles of protocols up to 5 as data. The machine that Python's pickle runs, except that it never
// calls, imports or looks up anything: where Python would, it notes what was named and with which
// arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tost/io/pickle_tree.h"

namespace tost {

// What a pickle may take. One byte of it can make a value of 40 bytes, a container of about 100 or
// an object of about 200, so that memory has a limit of its own. It is counted without what growing
// vectors hold while they move, which is as much again.
struct PickleLimits {
  int64_t values = 4'000'000;
  int64_t items = 16'000'000;  // references in all containers
  int64_t stack = 4'000'000;
  int64_t memo = 4'000'000;
  int64_t depth = 1000;  // of marks, and of values in each other by the longest path
  int64_t memory = int64_t{256} << 20;
};

// The pickle at the beginning of `bytes`, which must outlive the tree; `consumed` gets its length.
// Where `consumed` is null, nothing may follow the pickle. `where` names file and entry in
// messages.
//
// Throws a data Error naming the byte for: an unknown opcode, extension codes, buffers outside of
// the pickle, frames that do not fit, a missing STOP, a stack or memo used before it was filled, a
// mark in the wrong place, keys that cannot be keys or have more than 64 KiB, a key twice
// in a dict, classes with names of more than 512 bytes or more than 100,000 of them, strings that
// are not UTF-8, changes to what cannot be changed (a tuple, a class), and whatever goes over a
// limit.
PickleTree read_pickle(std::string_view bytes, const std::string& where, size_t* consumed = nullptr,
                       const PickleLimits& limits = {});

}  // namespace tost
