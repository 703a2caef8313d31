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
  stack_.push_back(id);
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
  if (marks_.empty()) fail("it goes back to a mark that is not there");
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
  if (module.size() > 4096 || name.size() > 4096)
    fail("it names a class with more than 4096 bytes");
  if (!is_utf8(module) || !is_utf8(name)) fail("it names a class in something else than UTF-8");
  push(tree_.add_global(module, name, at_));
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
  if (error != std::errc() || stop != end) fail(cat(shown(step.arg), " is no place of the memo"));
  return index;
}

// One value in, deepest path first; a value met again is not walked again.
void PickleMachine::check_tree() {
  struct Visit {
    PickleId id;
    int64_t depth;
  };
  std::vector<bool> seen(tree_.size());
  std::vector<Visit> open{{tree_.root_, 1}};
  std::vector<PickleId> children;
  while (!open.empty()) {
    const Visit visit = open.back();
    open.pop_back();
    if (seen[visit.id]) continue;
    seen[visit.id] = true;
    at_ = tree_[visit.id].offset;
    if (visit.depth > limits_.depth) {
      fail(cat("values lie in each other more than ", limits_.depth, " deep"));
    }
    check_keys_once(visit.id);
    children.clear();
    tree_.append_children(visit.id, children);
    for (const PickleId child : children) {
      if (!seen[child]) open.push_back({child, visit.depth + 1});
    }
  }
}

void PickleMachine::check_keys_once(PickleId id) {
  const PickleKind kind = tree_[id].kind;
  if (kind != PickleKind::kDict && kind != PickleKind::kObject) return;
  const auto& pairs = kind == PickleKind::kDict ? tree_.items(id) : tree_.object(id).dict_items;
  if (pairs.size() < 4) return;
  std::unordered_set<std::string_view> names;
  std::unordered_set<int64_t> numbers;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const PickleValue& key = tree_[pairs[i]];
    if (key.kind == PickleKind::kString && !names.insert(key.text).second) {
      fail(cat("the key ", shown(key.text), " stands twice in a dict"));
    }
    if (key.kind == PickleKind::kInt && !numbers.insert(key.integer).second) {
      fail(cat("the key ", key.integer, " stands twice in a dict"));
    }
  }
}

}  // namespace tost
