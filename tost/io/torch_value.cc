#include "tost/io/torch_value.h"

#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_element.h"
#include "tost/io/torch_numpy.h"

namespace tost {
namespace {

constexpr size_t kMaxName = 1024, kMaxTensors = 1'000'000;

// The dict among an object's states; (dict, slots) is the other form Python writes.
std::vector<PickleId> attributes(const PickleTree& tree, const PickleObject& made) {
  for (size_t i = made.states.size(); i-- > 0;) {
    PickleId state = made.states[i];
    if (tree.is(state, PickleKind::kTuple) && tree.items(state).size() == 2) {
      state = tree.items(state).front();
    }
    if (tree.is(state, PickleKind::kDict)) return tree.items(state);
  }
  return {};
}

// OrderedDict([[key, value], …]), as Python 2 wrote it.
std::vector<PickleId> pairs_of_argument(const PickleTree& tree, const PickleObject& made) {
  std::vector<PickleId> pairs;
  const auto& args = tree.items(made.args);
  if (args.size() != 1 || !tree.is(args[0], PickleKind::kList)) return pairs;
  for (const PickleId pair : tree.items(args[0])) {
    if (tree.items(pair).size() != 2 || tree.is(pair, PickleKind::kDict)) return {};
    pairs.insert(pairs.end(), tree.items(pair).begin(), tree.items(pair).end());
  }
  return pairs;
}

std::string key_name(const PickleTree& tree, PickleId key) {
  if (tree.is(key, PickleKind::kString)) return std::string(tree[key].text);
  if (tree.is(key, PickleKind::kInt)) return cat(tree[key].integer);
  return cat("<", kind_name(tree[key].kind), ">");
}

bool can_hold_tensors(PickleKind kind) {
  return kind == PickleKind::kTuple || kind == PickleKind::kList || kind == PickleKind::kDict ||
         kind == PickleKind::kObject;
}

struct Open {
  PickleId id;
  std::string name;
};

void open_children(const PickleTree& tree, const Open& at, std::vector<Open>& out) {
  const auto add = [&](PickleId id, const std::string& part) {
    if (!can_hold_tensors(tree[id].kind)) return;
    std::string name = at.name.empty() ? part : at.name + "." + part;
    if (name.size() > kMaxName) name.resize(kMaxName);
    out.push_back({id, std::move(name)});
  };
  const auto fields = torch_fields(tree, at.id);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    add(fields[i + 1], key_name(tree, fields[i]));
  }
  if (!fields.empty() || tree.is(at.id, PickleKind::kDict)) return;
  std::vector<PickleId> children;
  tree.append_children(at.id, children);
  for (size_t i = 0; i < children.size(); ++i) add(children[i], cat(i));
}

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
  if (!is_torch_dict(tree, id)) return attributes(tree, made);
  return made.dict_items.empty() ? pairs_of_argument(tree, made) : made.dict_items;
}

std::optional<PickleId> torch_field(const PickleTree& tree, PickleId id, std::string_view key) {
  const auto fields = torch_fields(tree, id);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (tree.is_string(fields[i], key)) return fields[i + 1];
  }
  return std::nullopt;
}

std::vector<NamedTorchTensor> list_torch_tensors(const TorchFile& file, PickleId from) {
  const PickleTree& tree = file.tree();
  std::vector<NamedTorchTensor> found;
  std::vector<bool> entered(tree.size());
  std::vector<Open> open{{from, ""}}, children;
  while (!open.empty()) {
    const Open at = std::move(open.back());
    open.pop_back();
    if (const TorchTensor* tensor = file.tensor(at.id)) {
      found.push_back({at.name, at.id, tensor});
      if (found.size() > kMaxTensors) {
        fail_data("'", file.name(), "' names more than ", kMaxTensors, " tensors.");
      }
      continue;
    }
    if (entered[at.id]) continue;
    entered[at.id] = true;
    children.clear();
    open_children(tree, at, children);
    for (size_t i = children.size(); i-- > 0;) open.push_back(std::move(children[i]));
  }
  return found;
}

std::optional<double> torch_number(const TorchFile& file, PickleId id) {
  const PickleValue& value = file.tree()[id];
  switch (value.kind) {
    case PickleKind::kBool:
    case PickleKind::kInt:
      return static_cast<double>(value.integer);
    case PickleKind::kFloat:
      return value.number;
    case PickleKind::kObject:
      break;
    default:
      return std::nullopt;
  }
  if (const TorchTensor* tensor = file.tensor(id)) {
    const int64_t width = dtype_info(tensor->dtype).bytes;
    if (tensor->elements() != 1 || !is_real(tensor->dtype)) return std::nullopt;
    return read_element(file.storage_bytes(tensor->storage).data() + tensor->offset * width,
                        tensor->dtype);
  }
  const auto array = read_numpy(file.tree(), id);
  if (!array || !array->scalar || !array->dtype || !is_real(*array->dtype)) return std::nullopt;
  return read_element(array->bytes.data(), *array->dtype);
}

}  // namespace tost
