#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tost/base/error.h"
#include "tost/io/pickle.h"
#include "tost/io/safe_text.h"

namespace tost {

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

namespace {

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
  // Counts the levels of values from this one down, by the longest path; a way back around a circle
  // counts nothing. Recurses at most `most_` deep.
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

  // The first key with that text, so that a text many dicts share is read once.
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
  std::vector<PickleId> first_keys_;  // by value; 0 where not asked for yet
  std::unordered_map<std::string_view, PickleId> key_of_text_;
};

}  // namespace

void fail_pickle(const std::string& where, size_t offset, const std::string& what) {
  fail_data(where, " is refused at byte ", offset, " of its pickle: ", what, ".");
}

void check_pickle_tree(const PickleTree& tree, const std::string& where, int64_t most) {
  TreeChecker(tree, where, most).run();
}

}  // namespace tost
