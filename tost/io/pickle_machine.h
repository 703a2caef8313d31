// The machine that read_pickle() runs.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tost/io/pickle_reader.h"
#include "tost/io/pickle_scan.h"

namespace tost {

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& where, const PickleLimits& limits);

  // Runs to STOP.
  PickleTree run();
  size_t consumed() const { return scanner_.position(); }

 private:
  // Each returns false for an opcode of another group.
  bool run_number(const PickleStep& step);
  bool run_text(const PickleStep& step);
  bool run_container(const PickleStep& step);
  bool run_change(const PickleStep& step);
  bool run_memo(const PickleStep& step);
  bool run_call(const PickleStep& step);

  void push(PickleId id);
  PickleId pop();
  PickleId top();
  std::vector<PickleId> pop_mark();
  void push_mark();
  void push_integer(int64_t value);
  void push_long(std::string_view bytes);
  void push_text(PickleKind kind, std::string_view text);
  void push_container(PickleKind kind, std::vector<PickleId> items);
  void push_line_number(const PickleStep& step);
  void push_tuple_of(size_t count);
  void push_global(std::string_view module, std::string_view name);
  void push_marked_object(const PickleStep& step);
  void push_object(PickleId callee, PickleId args, PickleId kwargs = PickleTree::kNoneId);
  void add_pairs(PickleId dict, const std::vector<PickleId>& pairs);
  void append(PickleId list, const std::vector<PickleId>& items);
  void build(PickleId object, PickleId state);
  void remember(uint64_t index);
  void recall(uint64_t index);
  uint64_t line_index(const PickleStep& step);
  void count_items(size_t items);
  // About what tree, stack and memo take, in bytes.
  int64_t memory() const;
  void check_keys(const std::vector<PickleId>& items, size_t stride);
  void begin(const PickleStep& step);
  // Of the finished tree.
  void check_depth();
  void check_all_keys();
  void check_keys_once(const std::vector<PickleId>& pairs);
  // The first key with that text, so that a text many dicts share is read once.
  PickleId first_key(PickleId id);
  [[noreturn]] void fail(const std::string& what) const;

  PickleScanner scanner_;
  PickleLimits limits_;
  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint32_t, PickleId> memo_;
  int64_t items_ = 0;
  std::unordered_map<std::string_view, PickleId> key_of_text_;
  std::vector<PickleId> first_keys_;  // by value; 0 where not asked for yet
  uint32_t at_ = 0;                   // of the opcode being run
};

}  // namespace tost
