// Reads Python's pickle, protocols 2 to 5, as plain data. The reader never calls or imports
// anything; instead the tree holds the name and the arguments of a call.
//
// The tree is a flat list of values that refer to each other by number. Shared values are stored
// once, and cycles are possible, so code that walks the tree must remember visited values. Neither
// the reader nor the destructor recurses. Texts point into the pickle's bytes, which must outlive
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tost {

using PickleId = uint32_t;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits
  kFloat,
  kString,  // UTF-8
  kBytes,
  kTuple,
  kList,
  kDict,
  kSet,
  kFrozenSet,
  kGlobal,        // the name of a class or function
  kObject,        // the call, not executed
  kPersistentId,  // a name for something outside of the pickle
};

// The name of a kind for messages: "a list", "an object", …
const char* kind_name(PickleKind kind);

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  uint32_t offset = 0;  // of the opcode that made it
  union {
    int64_t integer = 0;  // kBool, kInt; the index of a kGlobal or kObject
    double number;        // kFloat
  };
  std::string_view text;  // kString, kBytes; kBigInt: two's complement, little-endian
  uint32_t items = UINT32_MAX;
};

// A class or function that the pickle names.
struct PickleGlobal {
  std::string_view module, name;
  uint32_t offset = 0;  // where first
  int64_t calls = 0;    // how often it would be called
  std::string full_name() const { return std::string(module) + "." + std::string(name); }
};

// An object: the result of callee(*args, **kwargs), changed by later opcodes of the pickle.
struct PickleObject {
  PickleId callee = 0;
  PickleId args = 0;                 // a tuple
  PickleId kwargs = 0;               // a dict, or None
  std::vector<PickleId> list_items;  // appended
  std::vector<PickleId> dict_items;  // key, value, key, value, …
  std::vector<PickleId> states;      // set as attributes
};

class PickleTree {
 public:
  static constexpr PickleId kNoneId = 0, kTrueId = 1, kFalseId = 2, kEmptyTupleId = 3;
  PickleTree();

  PickleId root() const { return root_; }
  size_t size() const { return values_.size(); }
  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  // The items of a tuple, list or set, the item of a persistent id, or the keys and values of a
  // dict.
  const std::vector<PickleId>& items(PickleId id) const;
  const PickleObject& object(PickleId id) const { return objects_[index_of(id)]; }
  const PickleGlobal& global(PickleId id) const { return globals_[index_of(id)]; }
  // Every class and function that the pickle names, reachable or not, in the order of appearance.
  const std::vector<PickleGlobal>& globals() const { return globals_; }

  bool is(PickleId id, PickleKind kind) const { return values_[id].kind == kind; }
  bool is_string(PickleId id, std::string_view text) const {
    return is(id, PickleKind::kString) && values_[id].text == text;
  }
  // Whether the value is the global, or an object made by calling it.
  bool is_global(PickleId id, std::string_view module, std::string_view name) const;
  bool is_call(PickleId id, std::string_view module, std::string_view name) const;
  // Appends, in order, all values to which this value refers directly.
  void append_children(PickleId id, std::vector<PickleId>& out) const;

 private:
  friend class PickleMachine;
  size_t index_of(PickleId id) const { return static_cast<size_t>(values_[id].integer); }
  PickleId add(PickleKind kind, uint32_t offset);
  PickleId add_container(PickleKind kind, uint32_t offset, std::vector<PickleId> items);
  PickleId add_global(std::string_view module, std::string_view name, uint32_t offset);
  PickleId add_object(PickleObject object, uint32_t offset);

  PickleId root_ = kNoneId;
  std::vector<PickleValue> values_;
  std::vector<std::vector<PickleId>> items_;
  std::vector<PickleObject> objects_;
  std::vector<PickleGlobal> globals_;
  using FullName = std::pair<std::string_view, std::string_view>;
  struct HashName {
    size_t operator()(const FullName& name) const {
      const std::hash<std::string_view> hash;
      return hash(name.first) * 31 + hash(name.second);
    }
  };
  std::unordered_map<FullName, size_t, HashName> global_index_;
};

// Limits of a pickle. One byte of a pickle can make a value of 40 bytes, a container of about 100
// or an object of about 200, so memory has a separate limit. The limit does not count the memory
// that growing vectors need temporarily.
struct PickleLimits {
  int64_t values = 4'000'000;
  int64_t items = 16'000'000;  // references in all containers
  int64_t stack = 4'000'000;
  int64_t memo = 4'000'000;
  int64_t depth = 1000;  // of marks, and of values in each other by the longest path
  int64_t memory = int64_t{256} << 20;
};

// Reads one pickle of at most 1 GiB from `bytes`, which must outlive the tree and hold nothing
// else. `where` names file and entry in messages.
//
// Throws a data Error naming the byte for unknown opcodes, extension codes, external buffers, wrong
// frames, a missing STOP, use of an empty stack or memo, a misplaced mark, wrong or repeated keys,
// keys above 64 KiB, class names above 512 bytes, more than 100,000 class names, strings that are
// not UTF-8, changes of a tuple or a class, and values above a limit.
PickleTree read_pickle(std::string_view bytes, const std::string& where,
                       const PickleLimits& limits = {});

}  // namespace tost
