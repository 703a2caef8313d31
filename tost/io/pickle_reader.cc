#include "tost/io/pickle_reader.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/io/pickle_machine.h"
#include "tost/io/safe_text.h"

namespace tost {

PickleTree PickleMachine::run() {
  while (true) {
    const PickleStep step = scanner_.next();
    at_ = step.offset;
    if (step.op->code == '.') break;
    begin(step);
  }
  tree_.root_ = pop();
  if (!stack_.empty() || !marks_.empty()) {
    fail(cat(stack_.size() + marks_.size(), " values or marks are left on the stack at STOP"));
  }
  check_depth();
  check_all_keys();
  return std::move(tree_);
}

void PickleMachine::begin(const PickleStep& step) {
  if (run_number(step) || run_text(step) || run_container(step) || run_change(step) ||
      run_memo(step) || run_call(step)) {
    return;
  }
  switch (step.op->code) {
    case 0x80:
      if (at_ != 0) fail("PROTO stands in the middle");
      if (pickle_unsigned(step.arg) > 5) {
        fail(cat("protocol ", pickle_unsigned(step.arg), " is unknown; 5 is the newest"));
      }
      return;
    case 0x95:
      return;  // the scanner keeps the frame
    case 0x82:
    case 0x83:
    case 0x84:
      fail(cat("it uses extension code ", pickle_unsigned(step.arg),
               ", which only the program that wrote it could explain"));
    default:
      fail(cat(step.op->name, " refers to a buffer outside of the pickle"));
  }
}

bool PickleMachine::run_number(const PickleStep& step) {
  switch (step.op->code) {
    case 'N':
      push(PickleTree::kNoneId);
      return true;
    case 0x88:
      push(PickleTree::kTrueId);
      return true;
    case 0x89:
      push(PickleTree::kFalseId);
      return true;
    case 'K':
    case 'M':
      push_integer(static_cast<int64_t>(pickle_unsigned(step.arg)));
      return true;
    case 'J':
      push_integer(pickle_signed(step.arg));
      return true;
    case 0x8b:
    case 0x8a:
      push_long(step.arg);
      return true;
    case 'G': {
      const PickleId id = tree_.add(PickleKind::kFloat, at_);
      tree_.values_[id].number = pickle_double(step.arg);
      push(id);
      return true;
    }
    case 'I':
    case 'L':
    case 'F':
      push_line_number(step);
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_text(const PickleStep& step) {
  switch (step.op->code) {
    case 'X':
    case 0x8c:
    case 0x8d:
      push_text(PickleKind::kString, step.arg);
      return true;
    case 'B':
    case 'C':
    case 0x8e:
    case 0x96:
      push_text(PickleKind::kBytes, step.arg);
      return true;
    case 'T':
    case 'U':  // str of Python 2: text or bytes
      push_text(is_utf8(step.arg) ? PickleKind::kString : PickleKind::kBytes, step.arg);
      return true;
    case 'S':
    case 'V': {
      std::string_view text = step.arg;
      if (text.find('\\') != text.npos) fail("a string of protocol 0 with escapes");
      if (step.op->code == 'S') {
        const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                            (text.front() == '\'' || text.front() == '"');
        if (!quoted) fail("a string of protocol 0 without quotes");
        text = text.substr(1, text.size() - 2);
      }
      push_text(PickleKind::kString, text);
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::run_container(const PickleStep& step) {
  switch (step.op->code) {
    case '(':
      push_mark();
      return true;
    case ')':
      push(PickleTree::kEmptyTupleId);
      return true;
    case ']':
      push_container(PickleKind::kList, {});
      return true;
    case '}':
      push_container(PickleKind::kDict, {});
      return true;
    case 0x8f:
      push_container(PickleKind::kSet, {});
      return true;
    case 't':
      push_container(PickleKind::kTuple, pop_mark());
      return true;
    case 'l':
      push_container(PickleKind::kList, pop_mark());
      return true;
    case 0x91: {
      auto items = pop_mark();
      check_keys(items, 1);
      push_container(PickleKind::kFrozenSet, std::move(items));
      return true;
    }
    case 'd': {
      const auto pairs = pop_mark();
      push_container(PickleKind::kDict, {});
      add_pairs(top(), pairs);
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      push_tuple_of(step.op->code - size_t{0x84});
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_change(const PickleStep& step) {
  switch (step.op->code) {
    case 'a': {
      const PickleId item = pop();
      append(top(), {item});
      return true;
    }
    case 'e': {
      const auto items = pop_mark();
      append(top(), items);
      return true;
    }
    case 's': {
      const PickleId value = pop(), key = pop();
      add_pairs(top(), {key, value});
      return true;
    }
    case 'u': {
      const auto pairs = pop_mark();
      add_pairs(top(), pairs);
      return true;
    }
    case 0x90: {
      const auto items = pop_mark();
      check_keys(items, 1);
      count_items(items.size());
      if (!tree_.is(top(), PickleKind::kSet)) {
        fail(cat("it adds members to ", kind_name(tree_[top()].kind)));
      }
      auto& members = tree_.items_[tree_[top()].items];
      members.insert(members.end(), items.begin(), items.end());
      return true;
    }
    case 'b': {
      const PickleId state = pop();
      build(top(), state);
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::run_memo(const PickleStep& step) {
  switch (step.op->code) {
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':
      pop_mark();
      return true;
    case '2':
      push(top());
      return true;
    case 'g':
      recall(line_index(step));
      return true;
    case 'h':
    case 'j':
      recall(pickle_unsigned(step.arg));
      return true;
    case 'p':
      remember(line_index(step));
      return true;
    case 'q':
    case 'r':
      remember(pickle_unsigned(step.arg));
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_call(const PickleStep& step) {
  switch (step.op->code) {
    case 'c':
      push_global(step.arg, step.second);
      return true;
    case 0x93: {
      const PickleId name = pop(), module = pop();
      if (!tree_.is(name, PickleKind::kString) || !tree_.is(module, PickleKind::kString)) {
        fail("it names a class by something else than two strings");
      }
      push_global(tree_[module].text, tree_[name].text);
      return true;
    }
    case 'R':
    case 0x81: {
      const PickleId args = pop(), callee = pop();
      push_object(callee, args);
      return true;
    }
    case 0x92: {
      const PickleId kwargs = pop(), args = pop(), callee = pop();
      push_object(callee, args, kwargs);
      return true;
    }
    case 'o':
    case 'i':
      push_marked_object(step);
      return true;
    case 'P':
      push_text(PickleKind::kString, step.arg);
      push_container(PickleKind::kPersistentId, {pop()});
      return true;
    case 'Q':
      push_container(PickleKind::kPersistentId, {pop()});
      return true;
    default:
      return false;
  }
}

PickleTree read_pickle(std::string_view bytes, const std::string& where, size_t* consumed,
                       const PickleLimits& limits) {
  PickleMachine machine(bytes, where, limits);
  PickleTree tree = machine.run();
  if (consumed != nullptr) {
    *consumed = machine.consumed();
  } else if (machine.consumed() != bytes.size()) {
    fail_data(where, " is refused at byte ", machine.consumed(),
              " of its pickle: ", bytes.size() - machine.consumed(), " bytes follow STOP.");
  }
  return tree;
}

}  // namespace tost
