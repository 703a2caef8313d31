#include "tost/io/torch_outline.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

using Json = nlohmann::ordered_json;

// "[3, 4]"
std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += cat(d > 0 ? ", " : "", shape[d]);
  return text + "]";
}

class Outliner {
 public:
  Outliner(const TorchFile& file, const OutlineLimits& limits)
      : file_(file), tree_(file.tree()), limits_(limits), left_(limits.values) {}

  // Depth is bounded, so the recursion is.
  Json show(PickleId id, int64_t depth) {
    --left_;
    const PickleValue& value = tree_[id];
    switch (value.kind) {
      case PickleKind::kNone:
        return nullptr;
      case PickleKind::kBool:
        return value.integer != 0;
      case PickleKind::kInt:
        return value.integer;
      case PickleKind::kFloat:
        return std::isfinite(value.number) ? Json(value.number) : Json(cat(value.number));
      case PickleKind::kString:
        return escaped(value.text);
      case PickleKind::kBytes:
        return cat("<", value.text.size(), " bytes>");
      case PickleKind::kGlobal:
        return "<" + escaped(tree_.global(id).full_name()) + ">";
      case PickleKind::kBigInt:
      case PickleKind::kPersistentId:
        return value.kind == PickleKind::kBigInt ? "<long integer>" : "<storage>";
      case PickleKind::kDict:
        return show_fields(tree_.items(id), depth, Json::object());
      case PickleKind::kObject:
        return show_object(id, depth);
      default:
        return show_list(tree_.items(id), depth);
    }
  }

 private:
  // Whether item i of `count` is beyond what is shown.
  bool ends_at(size_t i) const { return static_cast<int64_t>(i) >= limits_.length || left_ <= 0; }

  Json show_list(const std::vector<PickleId>& items, int64_t depth) {
    if (depth >= limits_.depth && !items.empty()) return cat("<", items.size(), " items>");
    Json list = Json::array();
    size_t i = 0;
    for (; i < items.size() && !ends_at(i); ++i) list.push_back(show(items[i], depth + 1));
    if (i < items.size()) list.push_back(cat("… ", items.size() - i, " more"));
    return list;
  }

  // Adds the items to `object`, which may hold the class already.
  Json show_fields(const std::vector<PickleId>& pairs, int64_t depth, Json object) {
    const size_t count = pairs.size() / 2;
    // A dict that many paths lead to is looked through as often.
    left_ -= static_cast<int64_t>(count / 256);
    size_t tensors = 0, records = 0, i = 0;
    for (const PickleId id : pairs) {
      tensors += file_.tensor(id) != nullptr ? 1 : 0;
      records += is_record(id) ? 1 : 0;
    }
    if (count > 3 && tensors == count) return cat("<", count, " tensors>");
    if (count > 3 && records == count) return cat("<", count, " dicts with tensors>");
    if (depth >= limits_.depth && count > 0) return cat("<dict of ", count, ">");
    for (; i < count && !ends_at(i); ++i) {
      object[key_text(pairs[2 * i])] = show(pairs[2 * i + 1], depth + 1);
    }
    if (i < count) object["…"] = cat(count - i, " more");
    return object;
  }

  // Such as the moments an optimiser keeps of one parameter.
  bool is_record(PickleId id) const {
    if (!tree_.is(id, PickleKind::kDict)) return false;
    const auto& pairs = tree_.items(id);
    return pairs.size() > 1 && (file_.tensor(pairs[1]) != nullptr ||
                                (pairs.size() > 3 && file_.tensor(pairs[3]) != nullptr));
  }

  // Angle brackets are the outline's own.
  std::string key_text(PickleId key) {
    const Json text = show(key, limits_.depth);
    if (!text.is_string()) return json_text(text);
    const auto word = text.get<std::string>();
    return tree_.is(key, PickleKind::kString) && word.starts_with('<') ? "\\" + word : word;
  }

  Json show_object(PickleId id, int64_t depth) {
    if (const TorchTensor* tensor = file_.tensor(id)) {
      return cat("<", tensor->parameter ? "parameter " : "tensor ", dtype_info(tensor->dtype).name,
                 " ", shape_text(tensor->shape), ">");
    }
    const auto fields = torch_fields(tree_, id);
    if (is_torch_dict(tree_, id)) return show_fields(fields, depth, Json::object());
    const PickleObject& made = tree_.object(id);
    const std::string name = tree_.is(made.callee, PickleKind::kGlobal)
                                 ? escaped(tree_.global(made.callee).full_name())
                                 : "result of a call";
    if (depth >= limits_.depth) return "<" + name + ">";
    Json object = {{"<class>", name}};
    if (!fields.empty()) return show_fields(fields, depth, std::move(object));
    object["<arguments>"] = show_list(tree_.items(made.args), depth + 1);
    return object;
  }

  const TorchFile& file_;
  const PickleTree& tree_;
  const OutlineLimits& limits_;
  int64_t left_;
};

}  // namespace

nlohmann::ordered_json outline(const TorchFile& file, PickleId id, const OutlineLimits& limits) {
  return Outliner(file, limits).show(id, 0);
}

}  // namespace tost
