#include "tost/io/pickle_tree.h"

#include <utility>

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

const PickleId* PickleTree::find(PickleId dict, std::string_view key) const {
  const auto& pairs = is(dict, PickleKind::kObject) ? object(dict).dict_items : items(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_string(pairs[i], key)) return &pairs[i + 1];
  }
  return nullptr;
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
  ++globals_[found->second].references;
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
