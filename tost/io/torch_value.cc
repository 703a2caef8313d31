#include "tost/io/torch_value.h"

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr size_t kMaxName = 1024, kMaxTensors = 200'000, kMaxNames = size_t{64} << 20;

// The dict in an object's state, which Python writes as a dict or as (dict, slots).
std::optional<PickleId> attributes(const PickleTree& tree, const PickleObject& made) {
  for (size_t i = made.states.size(); i-- > 0;) {
    PickleId state = made.states[i];
    if (tree.is(state, PickleKind::kTuple) && tree.items(state).size() == 2) {
      state = tree.items(state).front();
    }
    if (tree.is(state, PickleKind::kDict)) return state;
  }
  return std::nullopt;
}

// The dict from which torch_fields() reads: the value itself, or an object's state.
PickleId fields_holder(const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kObject) || is_torch_dict(tree, id)) return id;
  return attributes(tree, tree.object(id)).value_or(id);
}

std::string key_name(const PickleTree& tree, PickleId key) {
  if (tree.is(key, PickleKind::kString)) return std::string(tree[key].text.substr(0, kMaxName));
  if (tree.is(key, PickleKind::kInt)) return cat(tree[key].integer);
  return cat("<", kind_name(tree[key].kind), ">");
}

bool can_hold_tensors(PickleKind kind) {
  return kind == PickleKind::kTuple || kind == PickleKind::kList || kind == PickleKind::kDict ||
         kind == PickleKind::kObject;
}

// Lists tensors by recursion, whose depth PickleLimits::depth limits.
class TensorLister {
 public:
  explicit TensorLister(const TorchFile& file)
      : file_(file), tree_(file.tree()), entered_(tree_.size()) {}

  std::vector<NamedTorchTensor> run(PickleId from) {
    visit(from);
    return std::move(found_);
  }

 private:
  // Visits a value, whose name is `name_`.
  void visit(PickleId id) {
    if (const TorchTensor* tensor = file_.tensor(id)) return add(id, tensor);
    if (!can_hold_tensors(tree_[id].kind) || entered_[id]) return;
    entered_[id] = true;
    const std::vector<PickleId> fields = take_fields(id);
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      visit_part(fields[i + 1], [&] { return key_name(tree_, fields[i]); });
    }
    if (!fields.empty()) return;
    std::vector<PickleId> children;
    tree_.append_children(id, children);
    for (size_t i = 0; i < children.size(); ++i) {
      visit_part(children[i], [&] { return cat(i); });
    }
  }

  // Visits a part of a value. Calls `part`, which names the value, only if the value has tensors.
  template <class Part>
  void visit_part(PickleId id, const Part& part) {
    if (!can_hold_tensors(tree_[id].kind) || entered_[id]) return;
    const size_t size = name_.size();
    name_ += cat(name_.empty() ? "" : ".", part());
    if (name_.size() > kMaxName) name_.resize(kMaxName);
    visit(id);
    name_.resize(size);
  }

  // The fields of a value at its first visit, else none: many objects may share one state.
  std::vector<PickleId> take_fields(PickleId id) {
    const PickleId holder = fields_holder(tree_, id);
    if (holder != id && entered_[holder]) return {};
    entered_[holder] = true;
    return torch_fields(tree_, id);
  }

  void add(PickleId id, const TorchTensor* tensor) {
    names_ += name_.size();
    if (found_.size() >= kMaxTensors || names_ > kMaxNames) {
      fail_data("'", file_.name(), "' names more than ", kMaxTensors,
                " tensors, or tensors with more than ", kMaxNames, " bytes of names.");
    }
    found_.push_back({name_, id, tensor});
  }

  const TorchFile& file_;
  const PickleTree& tree_;
  std::vector<bool> entered_;
  std::string name_;
  std::vector<NamedTorchTensor> found_;
  size_t names_ = 0;
};

}  // namespace

bool is_torch_dict(const PickleTree& tree, PickleId id) {
  return tree.is(id, PickleKind::kDict) || tree.is_call(id, "collections", "OrderedDict") ||
         tree.is_call(id, "collections", "defaultdict") ||
         tree.is_call(id, "collections", "Counter");
}

std::vector<PickleId> torch_fields(const PickleTree& tree, PickleId id) {
  if (tree.is(id, PickleKind::kDict)) return tree.items(id);
  if (!tree.is(id, PickleKind::kObject)) return {};
  const PickleObject& made = tree.object(id);
  if (!is_torch_dict(tree, id)) {
    const auto state = attributes(tree, made);
    return state ? tree.items(*state) : std::vector<PickleId>();
  }
  return made.dict_items;
}

std::optional<PickleId> torch_field(const PickleTree& tree, PickleId id, std::string_view key) {
  const auto fields = torch_fields(tree, id);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (tree.is_string(fields[i], key)) return fields[i + 1];
  }
  return std::nullopt;
}

std::vector<NamedTorchTensor> list_torch_tensors(const TorchFile& file, PickleId from) {
  return TensorLister(file).run(from);
}

std::optional<double> torch_number(const PickleTree& tree, PickleId id) {
  const PickleValue& value = tree[id];
  if (value.kind == PickleKind::kFloat) return value.number;
  if (value.kind != PickleKind::kBool && value.kind != PickleKind::kInt) return std::nullopt;
  return static_cast<double>(value.integer);
}

}  // namespace tost
