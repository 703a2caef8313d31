// What a pickle describes, as plain data: a flat list of values that refer to each other by number.
//
// Shared values are stored once, circles are possible, and nothing about the tree recurses, not
// even its destruction; who walks it has to remember where he has been. Text lies in the pickle's
// own bytes, which must outlive the tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
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
  kGlobal,        // the name of a class or function; never looked up
  kObject,        // what a call would have made; never called
  kPersistentId,  // a name for something outside of the pickle
};

// "a list", "an object", …
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

// A class or function the pickle names.
struct PickleGlobal {
  std::string_view module, name;
  uint32_t offset = 0;     // where first
  int64_t references = 0;  // how often it is named
  int64_t calls = 0;       // how often it would be called
  std::string full_name() const { return std::string(module) + "." + std::string(name); }
};

// callee(*args, **kwargs), then changed by what follows it in the pickle.
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
  // Of a tuple, list, set, or a persistent id (one); of a dict key, value, key, value, …
  const std::vector<PickleId>& items(PickleId id) const;
  const PickleObject& object(PickleId id) const { return objects_[index_of(id)]; }
  const PickleGlobal& global(PickleId id) const { return globals_[index_of(id)]; }
  // Every class and function named anywhere, reachable or not, in the order of appearance.
  const std::vector<PickleGlobal>& globals() const { return globals_; }

  bool is(PickleId id, PickleKind kind) const { return values_[id].kind == kind; }
  bool is_string(PickleId id, std::string_view text) const {
    return is(id, PickleKind::kString) && values_[id].text == text;
  }
  // Whether the value is the global, or an object made by calling it.
  bool is_global(PickleId id, std::string_view module, std::string_view name) const;
  bool is_call(PickleId id, std::string_view module, std::string_view name) const;
  // The value of a dict's string key; nullptr where it has none.
  const PickleId* find(PickleId dict, std::string_view key) const;
  // Everything the value refers to directly, in order.
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

}  // namespace tost
