#include "tost/io/torch_value.h"

#include "tost/base/error.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr size_t kMaxName = 1024, kMaxTensors = 200'000, kMaxNames = size_t{64} << 20;

// The dict among an object's states; (dict, slots) is the other form Python writes.
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

// The value that torch_fields() are read from: the dict itself, or an object's state.
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

// Walks from container to container, the name of the current one always in one string.
class TensorLister {
 public:
  explicit TensorLister(const TorchFile& file)
      : file_(file), tree_(file.tree()), entered_(tree_.size()), read_(tree_.size()) {}

  std::vector<NamedTorchTensor> run(PickleId from) {
    visit(from, [] { return std::string(); });
    while (!open_.empty()) {
      Container& at = open_.back();
      name_.resize(at.name_size);
      const size_t step = at.pairs ? 2 : 1, i = at.next;
      if (i + step > at.items.size()) {
        open_.pop_back();
        continue;
      }
      at.next += step;
      if (at.pairs) {
        const PickleId key = at.items[i];
        visit(at.items[i + 1], [&] { return key_name(tree_, key); });
      } else {
        visit(at.items[i], [&] { return cat(i); });
      }
    }
    return std::move(found_);
  }

 private:
  struct Container {
    std::vector<PickleId> items;
    bool pairs;
    size_t name_size;
    size_t next = 0;
  };

  // `part` makes the name's last part, where one is needed.
  template <class Part>
  void visit(PickleId id, const Part& part) {
    if (!can_hold_tensors(tree_[id].kind)) return;
    const TorchTensor* tensor = file_.tensor(id);
    if (tensor == nullptr && !enter(id)) return;
    const std::string last = part();
    if (!name_.empty()) name_ += '.';
    name_ += last;
    if (name_.size() > kMaxName) name_.resize(kMaxName);
    if (tensor != nullptr) {
      keep(id, tensor);
    } else {
      open_.back().name_size = name_.size();
    }
  }

  // False where the value was entered before or holds nothing.
  bool enter(PickleId id) {
    if (entered_[id]) return false;
    entered_[id] = true;
    Container container{{}, true, 0};
    const PickleId holder = fields_holder(tree_, id);
    if (!read_[holder]) {  // many objects may have one state
      read_[holder] = true;
      container.items = torch_fields(tree_, id);
    }
    if (container.items.empty() && !tree_.is(id, PickleKind::kDict)) {
      container.pairs = false;
      tree_.append_children(id, container.items);
    }
    if (container.items.empty()) return false;
    open_.push_back(std::move(container));
    return true;
  }

  void keep(PickleId id, const TorchTensor* tensor) {
    names_ += name_.size();
    if (found_.size() >= kMaxTensors || names_ > kMaxNames) {
      fail_data("'", file_.name(), "' names more than ", kMaxTensors,
                " tensors, or tensors with more than ", kMaxNames, " bytes of names.");
    }
    found_.push_back({name_, id, tensor});
  }

  const TorchFile& file_;
  const PickleTree& tree_;
  std::vector<bool> entered_, read_;  // containers; those whose fields were taken
  std::vector<Container> open_;       // the way to where it is
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
