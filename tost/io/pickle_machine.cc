// The stack, the memo and the tree of the pickle machine; pickle_reader.cc holds the opcodes.
#include "tost/io/pickle_machine.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tost/base/error.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr size_t kMaxKey = size_t{1} << 16, kMaxGlobalName = 512, kMaxGlobals = 100'000;

// A value of the tree that lies too deep, or has too much below it; None where there is none. From
// the innermost values up, so that of many paths to a value the longest counts. A way back around
// a circle counts nothing.
PickleId find_too_deep(const PickleTree& tree, size_t limit) {
  struct Frame {
    PickleId id;
    std::vector<PickleId> children;
    size_t next = 0;
    uint32_t below = 0;  // the greatest depth of a child
  };
  constexpr uint32_t kOpen = UINT32_MAX;
  std::vector<uint32_t> depth(tree.size());  // 0: not met
  std::vector<Frame> path;
  const auto enter = [&](PickleId id) {
    depth[id] = kOpen;
    path.push_back({id, {}});
    tree.append_children(id, path.back().children);
  };
  enter(tree.root());
  while (!path.empty()) {
    Frame& frame = path.back();
    if (frame.next == frame.children.size()) {
      if (frame.below >= limit) return frame.id;
      depth[frame.id] = frame.below + 1;
      path.pop_back();
      continue;
    }
    const PickleId child = frame.children[frame.next];
    if (depth[child] == 0) {
      if (path.size() >= limit) return child;
      enter(child);  // then looked at again
      continue;
    }
    if (depth[child] != kOpen) frame.below = std::max(frame.below, depth[child]);
    ++frame.next;
  }
  return PickleTree::kNoneId;
}

}  // namespace

PickleMachine::PickleMachine(std::string_view bytes, const std::string& where,
                             const PickleLimits& limits)
    : scanner_(bytes, where), limits_(limits) {}

void PickleMachine::fail(const std::string& what) const {
  scanner_.fail(at_, what);
}

void PickleMachine::push(PickleId id) {
  if (static_cast<int64_t>(tree_.size()) > limits_.values) {
    fail(cat("it holds more than ", limits_.values, " values"));
  }
  if (static_cast<int64_t>(stack_.size()) >= limits_.stack) {
    fail(cat("its stack grows beyond ", limits_.stack, " values"));
  }
  if (memory() > limits_.memory) {
    fail(cat("what it holds takes more than ", limits_.memory, " bytes of memory"));
  }
  stack_.push_back(id);
}

int64_t PickleMachine::memory() const {
  // Items lie in blocks of their own, of at least 32 bytes and up to half of them free.
  constexpr size_t kBlock = 32, kNode = 64;
  const size_t bytes = tree_.values_.size() * sizeof(PickleValue) +
                       tree_.items_.size() * (sizeof(std::vector<PickleId>) + kBlock) +
                       tree_.objects_.size() * (sizeof(PickleObject) + 3 * kBlock) +
                       tree_.globals_.size() * (sizeof(PickleGlobal) + kNode) +
                       memo_.size() * kNode + stack_.size() * sizeof(PickleId);
  return static_cast<int64_t>(bytes + static_cast<size_t>(items_) * 2 * sizeof(PickleId));
}

PickleId PickleMachine::top() {
  if (stack_.empty()) fail("it takes a value from an empty stack");
  if (!marks_.empty() && stack_.size() == marks_.back()) {
    fail("it takes a value from below a mark");
  }
  return stack_.back();
}

PickleId PickleMachine::pop() {
  const PickleId id = top();
  stack_.pop_back();
  return id;
}

void PickleMachine::push_mark() {
  if (static_cast<int64_t>(marks_.size()) >= limits_.depth) {
    fail(cat("more than ", limits_.depth, " marks are open"));
  }
  marks_.push_back(stack_.size());
}

std::vector<PickleId> PickleMachine::pop_mark() {
  if (marks_.empty()) fail("it pops a mark that is not there");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleId> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleMachine::push_integer(int64_t value) {
  const PickleId id = tree_.add(PickleKind::kInt, at_);
  tree_.values_[id].integer = value;
  push(id);
}

void PickleMachine::push_long(std::string_view bytes) {
  if (bytes.size() <= 8) return push_integer(pickle_signed(bytes));
  if (bytes.size() > 4096) fail(cat("an integer of ", bytes.size(), " bytes; the limit is 4096"));
  push_text(PickleKind::kBigInt, bytes);
}

void PickleMachine::push_text(PickleKind kind, std::string_view text) {
  if (kind == PickleKind::kString && !is_utf8(text)) fail("a string is not UTF-8");
  const PickleId id = tree_.add(kind, at_);
  tree_.values_[id].text = text;
  push(id);
}

void PickleMachine::push_container(PickleKind kind, std::vector<PickleId> items) {
  count_items(items.size());
  push(tree_.add_container(kind, at_, std::move(items)));
}

void PickleMachine::push_tuple_of(size_t count) {
  std::vector<PickleId> items(count);
  for (size_t i = count; i-- > 0;) items[i] = pop();
  push_container(PickleKind::kTuple, std::move(items));
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  if (module.size() > kMaxGlobalName || name.size() > kMaxGlobalName) {
    fail(cat("it names a class with more than ", kMaxGlobalName, " bytes"));
  }
  if (!is_utf8(module) || !is_utf8(name)) fail("it names a class in something else than UTF-8");
  push(tree_.add_global(module, name, at_));
  if (tree_.globals_.size() > kMaxGlobals)
    fail(cat("it names more than ", kMaxGlobals, " classes"));
}

void PickleMachine::push_object(PickleId callee, PickleId args, PickleId kwargs) {
  PickleObject object;
  object.callee = callee;
  object.args = args;
  object.kwargs = kwargs;
  if (!tree_.is(object.args, PickleKind::kTuple)) {
    fail(cat("it calls something with ", kind_name(tree_[object.args].kind), " for arguments"));
  }
  if (object.kwargs != PickleTree::kNoneId && !tree_.is(object.kwargs, PickleKind::kDict)) {
    fail(cat("it calls something with ", kind_name(tree_[object.kwargs].kind), " for keywords"));
  }
  push(tree_.add_object(std::move(object), at_));
}

// OBJ, whose class is the first item after the mark, and INST, which names it.
void PickleMachine::push_marked_object(const PickleStep& step) {
  auto items = pop_mark();
  if (step.op->code == 'i') {
    push_global(step.arg, step.second);
    items.insert(items.begin(), pop());
  }
  if (items.empty()) fail("OBJ without a class");
  const PickleId callee = items.front();
  items.erase(items.begin());
  push_container(PickleKind::kTuple, std::move(items));
  const PickleId args = pop();
  push_object(callee, args);
}

// Numbers written in decimal, with the two booleans of old protocols.
void PickleMachine::push_line_number(const PickleStep& step) {
  std::string_view text = step.arg;
  if (step.op->code == 'I' && (text == "00" || text == "01")) {
    return push(text == "01" ? PickleTree::kTrueId : PickleTree::kFalseId);
  }
  if (step.op->code == 'L' && !text.empty() && text.back() == 'L') text.remove_suffix(1);
  const char* const end = text.data() + text.size();
  if (step.op->code == 'F') {
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) fail(cat(shown(step.arg), " is not a number"));
    const PickleId id = tree_.add(PickleKind::kFloat, at_);
    tree_.values_[id].number = number;
    return push(id);
  }
  int64_t integer = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, integer);
  if (error != std::errc() || stop != end) {
    fail(cat(shown(step.arg), " is not an integer of 64 bits"));
  }
  push_integer(integer);
}

void PickleMachine::count_items(size_t items) {
  items_ += static_cast<int64_t>(items);
  if (items_ > limits_.items) fail(cat("its containers hold more than ", limits_.items, " items"));
}

void PickleMachine::check_keys(const std::vector<PickleId>& items, size_t stride) {
  for (size_t i = 0; i < items.size(); i += stride) {
    const PickleKind kind = tree_[items[i]].kind;
    if (kind == PickleKind::kList || kind == PickleKind::kDict || kind == PickleKind::kSet) {
      fail(cat(kind_name(kind), " cannot be a key or a member of a set"));
    }
  }
}

void PickleMachine::add_pairs(PickleId dict, const std::vector<PickleId>& pairs) {
  if (pairs.size() % 2 != 0) fail("a key has no value");
  check_keys(pairs, 2);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const PickleValue& key = tree_[pairs[i]];
    if (key.text.size() > kMaxKey) {
      fail(cat("a key of a dict has ", key.text.size(), " bytes; the limit is ", kMaxKey));
    }
  }
  count_items(pairs.size());
  const PickleValue& value = tree_[dict];
  if (value.kind != PickleKind::kDict && value.kind != PickleKind::kObject) {
    fail(cat("it sets items of ", kind_name(value.kind)));
  }
  auto& list = value.kind == PickleKind::kDict ? tree_.items_[value.items]
                                               : tree_.objects_[tree_.index_of(dict)].dict_items;
  list.insert(list.end(), pairs.begin(), pairs.end());
}

void PickleMachine::append(PickleId list, const std::vector<PickleId>& items) {
  count_items(items.size());
  const PickleValue& value = tree_[list];
  if (value.kind != PickleKind::kList && value.kind != PickleKind::kObject) {
    fail(cat("it appends to ", kind_name(value.kind)));
  }
  auto& target = value.kind == PickleKind::kList ? tree_.items_[value.items]
                                                 : tree_.objects_[tree_.index_of(list)].list_items;
  target.insert(target.end(), items.begin(), items.end());
}

void PickleMachine::build(PickleId object, PickleId state) {
  if (!tree_.is(object, PickleKind::kObject)) {
    fail(cat("it sets the state of ", kind_name(tree_[object].kind)));
  }
  count_items(1);
  tree_.objects_[tree_.index_of(object)].states.push_back(state);
}

void PickleMachine::remember(uint64_t index) {
  if (index > UINT32_MAX) fail(cat("the memo has no place ", index));
  memo_[static_cast<uint32_t>(index)] = top();
  if (static_cast<int64_t>(memo_.size()) > limits_.memo) {
    fail(cat("its memo grows beyond ", limits_.memo, " values"));
  }
}

void PickleMachine::recall(uint64_t index) {
  const auto found = memo_.find(static_cast<uint32_t>(index));
  if (index > UINT32_MAX || found == memo_.end()) {
    fail(cat("place ", index, " of the memo is empty"));
  }
  push(found->second);
}

uint64_t PickleMachine::line_index(const PickleStep& step) {
  uint64_t index = 0;
  const char* const end = step.arg.data() + step.arg.size();
  const auto [stop, error] = std::from_chars(step.arg.data(), end, index);
  if (error != std::errc() || stop != end)
    fail(cat(shown(step.arg), " is not a place of the memo"));
  return index;
}

void PickleMachine::check_depth() {
  const PickleId found = find_too_deep(tree_, static_cast<size_t>(limits_.depth));
  if (found == PickleTree::kNoneId) return;
  at_ = tree_[found].offset;
  fail(cat("values lie in each other more than ", limits_.depth, " deep"));
}

void PickleMachine::check_all_keys() {
  first_keys_.assign(tree_.size(), 0);
  for (PickleId id = 0; id < tree_.size(); ++id) {
    const PickleKind kind = tree_[id].kind;
    at_ = tree_[id].offset;
    if (kind == PickleKind::kDict) check_keys_once(tree_.items(id));
    if (kind == PickleKind::kObject) check_keys_once(tree_.object(id).dict_items);
  }
}

void PickleMachine::check_keys_once(const std::vector<PickleId>& pairs) {
  if (pairs.size() < 4) return;
  std::unordered_set<PickleId> texts;
  std::unordered_set<int64_t> numbers;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const PickleValue& key = tree_[pairs[i]];
    if (key.kind == PickleKind::kString && !texts.insert(first_key(pairs[i])).second) {
      fail(cat("the key ", shown(key.text), " stands twice in a dict"));
    }
    if (key.kind == PickleKind::kInt && !numbers.insert(key.integer).second) {
      fail(cat("the key ", key.integer, " stands twice in a dict"));
    }
  }
}

PickleId PickleMachine::first_key(PickleId id) {
  PickleId& first = first_keys_[id];
  if (first == 0) first = key_of_text_.emplace(tree_[id].text, id).first->second;
  return first;
}

}  // namespace tost
