// The part of the stack machine of Python's pickle that read_pickle() needs.
#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tost/base/error.h"
#include "tost/io/pickle.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30, kMaxLine = size_t{1} << 20;
constexpr size_t kMaxKey = size_t{1} << 16, kMaxGlobalName = 512;
constexpr int64_t kMaxGlobals = 100'000;

// Reads a little-endian number of up to 8 bytes.
uint64_t unsigned_number(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Reads a little-endian number in two's complement.
int64_t signed_number(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const size_t unused = 64 - 8 * bytes.size();
  return static_cast<int64_t>(unsigned_number(bytes) << unused) >> unused;
}

[[noreturn]] void fail_pickle(const std::string& where, size_t offset, const std::string& what) {
  fail_data(where, " is refused at byte ", offset, " of its pickle: ", what, ".");
}

// Throws a data Error if the longest path of nested values exceeds `most`, or a dict has a key
// twice.
class TreeChecker {
 public:
  TreeChecker(const PickleTree& tree, const std::string& where, int64_t most)
      : tree_(tree), where_(where), most_(most), levels_(tree.size()), first_keys_(tree.size()) {}

  void run() {
    measure(tree_.root(), 0);
    for (PickleId id = 0; id < tree_.size(); ++id) {
      if (tree_.is(id, PickleKind::kDict)) check_keys(id, tree_.items(id));
      if (tree_.is(id, PickleKind::kObject)) check_keys(id, tree_.object(id).dict_items);
    }
  }

 private:
  // Counts the levels of nested values below this one; an edge that closes a cycle does not count.
  // Recurses at most `most_` deep.
  void measure(PickleId id, int64_t above) {
    refuse_beyond(above, id);
    levels_[id] = kOpen;
    std::vector<PickleId> children;
    tree_.append_children(id, children);
    int64_t below = 0;
    for (const PickleId child : children) {
      if (levels_[child] == 0) measure(child, above + 1);
      if (levels_[child] != kOpen) below = std::max(below, levels_[child]);
    }
    refuse_beyond(below, id);
    levels_[id] = below + 1;
  }

  void refuse_beyond(int64_t others, PickleId id) const {
    if (others < most_) return;
    fail_pickle(where_, tree_[id].offset,
                cat("values lie in each other more than ", most_, " deep"));
  }

  void check_keys(PickleId dict, const std::vector<PickleId>& pairs) {
    if (pairs.size() < 4) return;
    std::unordered_set<PickleId> texts;
    std::unordered_set<int64_t> numbers;
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const PickleValue& key = tree_[pairs[i]];
      if (key.kind == PickleKind::kString && !texts.insert(first_key(pairs[i])).second) {
        fail_pickle(where_, tree_[dict].offset,
                    cat("the key ", shown(key.text), " stands twice in a dict"));
      }
      if (key.kind == PickleKind::kInt && !numbers.insert(key.integer).second) {
        fail_pickle(where_, tree_[dict].offset,
                    cat("the key ", key.integer, " stands twice in a dict"));
      }
    }
  }

  // Finds the first key with the same text, so that a key of many dicts is stored once.
  PickleId first_key(PickleId id) {
    PickleId& first = first_keys_[id];
    if (first == 0) first = key_of_text_.emplace(tree_[id].text, id).first->second;
    return first;
  }

  static constexpr int64_t kOpen = INT64_MAX;

  const PickleTree& tree_;
  const std::string& where_;
  int64_t most_;
  std::vector<int64_t> levels_;       // by value; 0 where not met, kOpen while measuring
  std::vector<PickleId> first_keys_;  // by value; 0 where not looked up yet
  std::unordered_map<std::string_view, PickleId> key_of_text_;
};

}  // namespace

class PickleMachine {
 public:
  struct Op {
    unsigned char code = 0;
    int arg = 0;                 // bytes of its argument; negative: of the length before it
    const char* name = nullptr;  // as Python's pickletools calls it; null: there is no such opcode
    void (*run)(PickleMachine&) = nullptr;
  };

  PickleMachine(std::string_view bytes, const std::string& where, const PickleLimits& limits)
      : bytes_(bytes), where_(where), limits_(limits) {}

  PickleTree run() {
    for (read_op(); op_->code != '.'; read_op()) op_->run(*this);
    tree_.root_ = pop();
    if (!stack_.empty() || !marks_.empty()) {
      fail(cat(stack_.size() + marks_.size(), " values or marks are left on the stack at STOP"));
    }
    TreeChecker(tree_, where_, limits_.depth).run();
    at_ = static_cast<uint32_t>(next_);
    if (next_ != bytes_.size()) fail(cat(bytes_.size() - next_, " bytes follow STOP"));
    return std::move(tree_);
  }

 private:
  static constexpr int kLines = 99;  // an argument of two lines
  static const std::array<Op, 256> kOps;

  [[noreturn]] void fail(const std::string& what) const { fail_pickle(where_, at_, what); }

  void limit(size_t count, int64_t most, const char* before, const char* after) const {
    if (count > static_cast<size_t>(most)) fail(cat(before, most, after));
  }

  // Reads the next opcode and its argument, which must be in the same frame.
  void read_op() {
    if (frame_end_ != 0 && next_ >= frame_end_) frame_end_ = 0;
    at_ = static_cast<uint32_t>(next_);
    if (next_ >= bytes_.size()) fail("it ends without STOP; the file may be truncated");
    const auto code = static_cast<unsigned char>(bytes_[next_++]);
    op_ = &kOps[code];
    if (op_->name == nullptr) fail(cat("there is no opcode ", int{code}, " in protocols 2 to 5"));
    if (op_->arg == kLines) {
      arg_ = take_line();
      second_ = take_line();
    } else {
      arg_ = take(static_cast<uint64_t>(op_->arg < 0 ? -op_->arg : op_->arg));
      if (op_->arg < 0) arg_ = take(unsigned_number(arg_));
    }
    if (code == '.' && frame_end_ > next_) fail("STOP stands inside a frame");
  }

  std::string_view take(uint64_t count) {
    const size_t left = (frame_end_ != 0 ? frame_end_ : bytes_.size()) - next_;
    if (count > left) {
      fail(cat(op_->name, " needs ", count, " bytes where ", left,
               frame_end_ != 0 ? " are left in its frame" : " are left"));
    }
    next_ += count;
    return bytes_.substr(next_ - count, count);
  }

  std::string_view take_line() {
    const size_t left = (frame_end_ != 0 ? frame_end_ : bytes_.size()) - next_;
    const auto window = bytes_.substr(next_, std::min(left, kMaxLine));
    const size_t length = window.find('\n');
    if (length == window.npos) fail(cat("the line after ", op_->name, " does not end"));
    next_ += length + 1;
    return window.substr(0, length);
  }

  void check_protocol() {
    const uint64_t protocol = unsigned_number(arg_);
    if (at_ != 0) fail("PROTO stands in the middle");
    if (protocol < 2 || protocol > 5)
      fail(cat("protocol ", protocol, " is unknown; 2 to 5 are read"));
  }

  void begin_frame() {
    const uint64_t length = unsigned_number(arg_);
    if (frame_end_ != 0 && next_ != frame_end_) fail("a frame begins inside another");
    if (length > bytes_.size() - next_) {
      fail(cat("a frame of ", length, " bytes begins where ", bytes_.size() - next_, " are left"));
    }
    frame_end_ = next_ + length;
  }

  void refuse_extension() {
    fail(cat("it uses extension code ", unsigned_number(arg_),
             ", which only the program that wrote it could explain"));
  }

  void push_mark() {
    limit(marks_.size() + 1, limits_.depth, "more than ", " marks are open");
    marks_.push_back(stack_.size());
  }

  void push(PickleId id) {
    limit(tree_.size(), limits_.values, "it holds more than ", " values");
    limit(stack_.size() + 1, limits_.stack, "its stack grows beyond ", " values");
    limit(memory(), limits_.memory, "what it holds takes more than ", " bytes of memory");
    stack_.push_back(id);
  }

  // The approximate number of bytes of tree, stack and memo.
  size_t memory() const {
    // Counts items twice, because up to half of the memory of a vector may be unused.
    constexpr size_t kBlock = 32, kNode = 64;
    return tree_.values_.size() * sizeof(PickleValue) +
           tree_.items_.size() * (sizeof(std::vector<PickleId>) + kBlock) +
           tree_.objects_.size() * (sizeof(PickleObject) + 3 * kBlock) +
           tree_.globals_.size() * (sizeof(PickleGlobal) + kNode) + memo_.size() * kNode +
           stack_.size() * sizeof(PickleId) + items_ * 2 * sizeof(PickleId);
  }

  PickleId top() const {
    if (stack_.empty()) fail("it takes a value from an empty stack");
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      fail("it takes a value from below a mark");
    }
    return stack_.back();
  }

  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }

  std::vector<PickleId> pop_last(size_t count) {
    std::vector<PickleId> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  // Removes a value or a mark from the stack.
  void pop_any() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  std::vector<PickleId> pop_mark() {
    if (marks_.empty()) fail("it pops a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleId> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  std::vector<PickleId> pop_members() {
    std::vector<PickleId> items = pop_mark();
    for (const PickleId id : items) check_key(id);
    return items;
  }

  void push_integer(int64_t value) {
    push(tree_.add(PickleKind::kInt, at_));
    tree_.values_.back().integer = value;
  }

  void push_long() {
    if (arg_.size() <= 8) return push_integer(signed_number(arg_));
    if (arg_.size() > 4096) fail(cat("an integer of ", arg_.size(), " bytes; the limit is 4096"));
    push_text(PickleKind::kBigInt);
  }

  void push_float() {
    push(tree_.add(PickleKind::kFloat, at_));
    tree_.values_.back().number = std::bit_cast<double>(__builtin_bswap64(unsigned_number(arg_)));
  }

  void push_text(PickleKind kind) {
    if (kind == PickleKind::kString && !is_utf8(arg_)) fail("a string is not UTF-8");
    push(tree_.add(kind, at_));
    tree_.values_.back().text = arg_;
  }

  void push_container(PickleKind kind, std::vector<PickleId> items) {
    count_items(items.size());
    push(tree_.add_container(kind, at_, std::move(items)));
  }

  void push_global(std::string_view module, std::string_view name) {
    if (module.size() > kMaxGlobalName || name.size() > kMaxGlobalName) {
      fail(cat("it names a class with more than ", kMaxGlobalName, " bytes"));
    }
    if (!is_utf8(module) || !is_utf8(name)) fail("it names a class in something else than UTF-8");
    push(tree_.add_global(module, name, at_));
    limit(tree_.globals_.size(), kMaxGlobals, "it names more than ", " classes");
  }

  void push_named_global() {
    const PickleId name = pop(), module = pop();
    if (!tree_.is(name, PickleKind::kString) || !tree_.is(module, PickleKind::kString)) {
      fail("it names a class by something else than two strings");
    }
    push_global(tree_[module].text, tree_[name].text);
  }

  void push_object(PickleId kwargs) {
    PickleObject object;
    object.kwargs = kwargs;
    object.args = pop();
    object.callee = pop();
    if (!tree_.is(object.args, PickleKind::kTuple)) {
      fail(cat("it calls something with ", kind_name(tree_[object.args].kind), " for arguments"));
    }
    if (kwargs != PickleTree::kNoneId && !tree_.is(kwargs, PickleKind::kDict)) {
      fail(cat("it calls something with ", kind_name(tree_[kwargs].kind), " for keywords"));
    }
    push(tree_.add_object(std::move(object), at_));
  }

  void count_items(size_t items) {
    items_ += items;
    limit(items_, limits_.items, "its containers hold more than ", " items");
  }

  void check_key(PickleId id) const {
    const PickleKind kind = tree_[id].kind;
    if (kind == PickleKind::kList || kind == PickleKind::kDict || kind == PickleKind::kSet) {
      fail(cat(kind_name(kind), " cannot be a key or a member of a set"));
    }
  }

  // Adds items to the container of a kind, or to a list of an object, on top of the stack.
  void add_to(const std::vector<PickleId>& items, PickleKind kind,
              std::vector<PickleId> PickleObject::*list, const char* refusal) {
    const PickleId id = top();
    count_items(items.size());
    const PickleValue& value = tree_[id];
    const bool object = list != nullptr && value.kind == PickleKind::kObject;
    if (value.kind != kind && !object) fail(refusal + std::string(kind_name(value.kind)));
    auto& target = object ? tree_.objects_[tree_.index_of(id)].*list : tree_.items_[value.items];
    target.insert(target.end(), items.begin(), items.end());
  }

  void append(const std::vector<PickleId>& items) {
    add_to(items, PickleKind::kList, &PickleObject::list_items, "it appends to ");
  }

  void add_pairs(const std::vector<PickleId>& pairs) {
    top();
    if (pairs.size() % 2 != 0) fail("a key has no value");
    for (size_t i = 0; i < pairs.size(); i += 2) {
      check_key(pairs[i]);
      const size_t size = tree_[pairs[i]].text.size();
      if (size > kMaxKey) fail(cat("a key of a dict has ", size, " bytes; the limit is ", kMaxKey));
    }
    add_to(pairs, PickleKind::kDict, &PickleObject::dict_items, "it sets items of ");
  }

  void build() {
    const PickleId state = pop(), object = top();
    if (!tree_.is(object, PickleKind::kObject)) {
      fail(cat("it sets the state of ", kind_name(tree_[object].kind)));
    }
    count_items(1);
    tree_.objects_[tree_.index_of(object)].states.push_back(state);
  }

  void remember(size_t index) {
    memo_[static_cast<uint32_t>(index)] = top();
    limit(memo_.size(), limits_.memo, "its memo grows beyond ", " values");
  }

  void recall() {
    const auto index = static_cast<uint32_t>(unsigned_number(arg_));
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(cat("place ", index, " of the memo is empty"));
    push(found->second);
  }

  std::string_view bytes_;
  const std::string& where_;
  const PickleLimits& limits_;
  size_t next_ = 0;       // the byte after the opcode being run and its argument
  size_t frame_end_ = 0;  // 0 outside of frames
  uint32_t at_ = 0;       // the opcode being run
  const Op* op_ = nullptr;
  std::string_view arg_, second_;  // without length or newline
  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint32_t, PickleId> memo_;
  size_t items_ = 0;  // of all containers
};

// The opcodes that picklers of protocols 2 to 5 write.
constexpr std::array<PickleMachine::Op, 256> PickleMachine::kOps = [] {
  using M = PickleMachine;
  using enum PickleKind;
  constexpr Op kWritten[] = {
      {'(', 0, "MARK", [](M& m) { m.push_mark(); }},
      {'.', 0, "STOP", nullptr},
      {'0', 0, "POP", [](M& m) { m.pop_any(); }},
      {'1', 0, "POP_MARK", [](M& m) { m.pop_mark(); }},
      {'N', 0, "NONE", [](M& m) { m.push(PickleTree::kNoneId); }},
      {0x88, 0, "NEWTRUE", [](M& m) { m.push(PickleTree::kTrueId); }},
      {0x89, 0, "NEWFALSE", [](M& m) { m.push(PickleTree::kFalseId); }},
      {'K', 1, "BININT1", [](M& m) { m.push_integer(int64_t(unsigned_number(m.arg_))); }},
      {'M', 2, "BININT2", [](M& m) { m.push_integer(int64_t(unsigned_number(m.arg_))); }},
      {'J', 4, "BININT", [](M& m) { m.push_integer(signed_number(m.arg_)); }},
      {0x8a, -1, "LONG1", [](M& m) { m.push_long(); }},
      {0x8b, -4, "LONG4", [](M& m) { m.push_long(); }},
      {'G', 8, "BINFLOAT", [](M& m) { m.push_float(); }},
      {'X', -4, "BINUNICODE", [](M& m) { m.push_text(kString); }},
      {0x8c, -1, "SHORT_BINUNICODE", [](M& m) { m.push_text(kString); }},
      {0x8d, -8, "BINUNICODE8", [](M& m) { m.push_text(kString); }},
      {'B', -4, "BINBYTES", [](M& m) { m.push_text(kBytes); }},
      {'C', -1, "SHORT_BINBYTES", [](M& m) { m.push_text(kBytes); }},
      {0x8e, -8, "BINBYTES8", [](M& m) { m.push_text(kBytes); }},
      {0x96, -8, "BYTEARRAY8", [](M& m) { m.push_text(kBytes); }},
      {')', 0, "EMPTY_TUPLE", [](M& m) { m.push(PickleTree::kEmptyTupleId); }},
      {']', 0, "EMPTY_LIST", [](M& m) { m.push_container(kList, {}); }},
      {'}', 0, "EMPTY_DICT", [](M& m) { m.push_container(kDict, {}); }},
      {0x8f, 0, "EMPTY_SET", [](M& m) { m.push_container(kSet, {}); }},
      {'t', 0, "TUPLE", [](M& m) { m.push_container(kTuple, m.pop_mark()); }},
      {0x85, 0, "TUPLE1", [](M& m) { m.push_container(kTuple, m.pop_last(1)); }},
      {0x86, 0, "TUPLE2", [](M& m) { m.push_container(kTuple, m.pop_last(2)); }},
      {0x87, 0, "TUPLE3", [](M& m) { m.push_container(kTuple, m.pop_last(3)); }},
      {0x91, 0, "FROZENSET", [](M& m) { m.push_container(kFrozenSet, m.pop_members()); }},
      {'a', 0, "APPEND", [](M& m) { m.append({m.pop()}); }},
      {'e', 0, "APPENDS", [](M& m) { m.append(m.pop_mark()); }},
      {'s', 0, "SETITEM", [](M& m) { m.add_pairs(m.pop_last(2)); }},
      {'u', 0, "SETITEMS", [](M& m) { m.add_pairs(m.pop_mark()); }},
      {0x90, 0, "ADDITEMS",
       [](M& m) { m.add_to(m.pop_members(), kSet, nullptr, "it adds members to "); }},
      {'c', kLines, "GLOBAL", [](M& m) { m.push_global(m.arg_, m.second_); }},
      {0x93, 0, "STACK_GLOBAL", [](M& m) { m.push_named_global(); }},
      {'R', 0, "REDUCE", [](M& m) { m.push_object(PickleTree::kNoneId); }},
      {0x81, 0, "NEWOBJ", [](M& m) { m.push_object(PickleTree::kNoneId); }},
      {0x92, 0, "NEWOBJ_EX", [](M& m) { m.push_object(m.pop()); }},
      {'b', 0, "BUILD", [](M& m) { m.build(); }},
      {'Q', 0, "BINPERSID", [](M& m) { m.push_container(kPersistentId, {m.pop()}); }},
      {'q', 1, "BINPUT", [](M& m) { m.remember(unsigned_number(m.arg_)); }},
      {'r', 4, "LONG_BINPUT", [](M& m) { m.remember(unsigned_number(m.arg_)); }},
      {0x94, 0, "MEMOIZE", [](M& m) { m.remember(m.memo_.size()); }},
      {'h', 1, "BINGET", [](M& m) { m.recall(); }},
      {'j', 4, "LONG_BINGET", [](M& m) { m.recall(); }},
      {0x80, 1, "PROTO", [](M& m) { m.check_protocol(); }},
      {0x95, 8, "FRAME", [](M& m) { m.begin_frame(); }},
      {0x82, 1, "EXT1", [](M& m) { m.refuse_extension(); }},
      {0x83, 2, "EXT2", [](M& m) { m.refuse_extension(); }},
      {0x84, 4, "EXT4", [](M& m) { m.refuse_extension(); }},
      {0x97, 0, "NEXT_BUFFER", [](M& m) { m.fail("it refers to a buffer outside of the pickle"); }},
      {0x98, 0, "READONLY_BUFFER",
       [](M& m) { m.fail("it refers to a buffer outside of the pickle"); }},
  };
  std::array<Op, 256> table{};
  for (const Op& op : kWritten) table[op.code] = op;
  return table;
}();

PickleTree read_pickle(std::string_view bytes, const std::string& where,
                       const PickleLimits& limits) {
  if (bytes.size() > kMaxBytes) {
    fail_data(where, " is a pickle of ", bytes.size(), " bytes; the limit is ", kMaxBytes, ".");
  }
  return PickleMachine(bytes, where, limits).run();
}

const char* kind_name(PickleKind kind) {
  constexpr const char* kNames[] = {"None",    "a bool",    "an integer",     "a long integer",
                                    "a float", "a string",  "bytes",          "a tuple",
                                    "a list",  "a dict",    "a set",          "a frozen set",
                                    "a class", "an object", "a persistent id"};
  return kNames[static_cast<size_t>(kind)];
}

PickleTree::PickleTree() {
  add(PickleKind::kNone, 0);
  values_[add(PickleKind::kBool, 0)].integer = 1;
  add(PickleKind::kBool, 0);
  add_container(PickleKind::kTuple, 0, {});
}

const std::vector<PickleId>& PickleTree::items(PickleId id) const {
  static const std::vector<PickleId> kNothing;
  const uint32_t at = values_[id].items;
  return at == UINT32_MAX ? kNothing : items_[at];
}

bool PickleTree::is_global(PickleId id, std::string_view module, std::string_view name) const {
  return is(id, PickleKind::kGlobal) && global(id).module == module && global(id).name == name;
}

bool PickleTree::is_call(PickleId id, std::string_view module, std::string_view name) const {
  return is(id, PickleKind::kObject) && is_global(object(id).callee, module, name);
}

void PickleTree::append_children(PickleId id, std::vector<PickleId>& out) const {
  if (!is(id, PickleKind::kObject)) {
    out.insert(out.end(), items(id).begin(), items(id).end());
    return;
  }
  const PickleObject& made = object(id);
  out.insert(out.end(), {made.callee, made.args, made.kwargs});
  for (const auto* list : {&made.list_items, &made.dict_items, &made.states}) {
    out.insert(out.end(), list->begin(), list->end());
  }
}

PickleId PickleTree::add(PickleKind kind, uint32_t offset) {
  PickleValue value;
  value.kind = kind;
  value.offset = offset;
  values_.push_back(value);
  return static_cast<PickleId>(values_.size() - 1);
}

PickleId PickleTree::add_container(PickleKind kind, uint32_t offset, std::vector<PickleId> items) {
  const PickleId id = add(kind, offset);
  values_[id].items = static_cast<uint32_t>(items_.size());
  items_.push_back(std::move(items));
  return id;
}

PickleId PickleTree::add_global(std::string_view module, std::string_view name, uint32_t offset) {
  const auto [found, fresh] = global_index_.emplace(FullName(module, name), globals_.size());
  if (fresh) globals_.push_back({module, name, offset});
  const PickleId id = add(PickleKind::kGlobal, offset);
  values_[id].integer = static_cast<int64_t>(found->second);
  return id;
}

PickleId PickleTree::add_object(PickleObject object, uint32_t offset) {
  if (is(object.callee, PickleKind::kGlobal)) ++globals_[index_of(object.callee)].calls;
  const PickleId id = add(PickleKind::kObject, offset);
  values_[id].integer = static_cast<int64_t>(objects_.size());
  objects_.push_back(std::move(object));
  return id;
}

}  // namespace tost
