// The content of a torch file of a test, as JSON that tests compare.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

#include "tost/io/torch_file.h"
#include "tost/io/torch_value.h"

namespace tost::testing {

// Dicts become objects, tuples, lists and sets arrays; numbers, texts and None themselves. Tensors,
// bytes, classes and the like become texts in angle brackets; any other object its attributes with
// its class under "<class>", or its arguments. The file is one of a test: without circles, and
// small.
class TorchOutline {
 public:
  using Json = nlohmann::ordered_json;
  explicit TorchOutline(const TorchFile& file) : file_(file), tree_(file.tree()) {}

  Json of(PickleId id) const {
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
        return std::string(value.text);
      case PickleKind::kBytes:
        return cat("<", value.text.size(), " bytes>");
      case PickleKind::kGlobal:
        return "<" + tree_.global(id).full_name() + ">";
      case PickleKind::kBigInt:
        return "<long integer>";
      case PickleKind::kPersistentId:
        return "<storage>";
      case PickleKind::kDict:
        return with_fields(Json::object(), tree_.items(id));
      case PickleKind::kObject:
        return of_object(id);
      default:
        return list_of(tree_.items(id));
    }
  }

 private:
  Json list_of(const std::vector<PickleId>& items) const {
    Json list = Json::array();
    for (const PickleId item : items) list.push_back(of(item));
    return list;
  }

  Json with_fields(Json object, const std::vector<PickleId>& pairs) const {
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const Json key = of(pairs[i]);
      object[key.is_string() ? key.get<std::string>() : key.dump()] = of(pairs[i + 1]);
    }
    return object;
  }

  Json of_object(PickleId id) const {
    if (file_.tensor(id) != nullptr) return "<tensor>";
    const auto fields = torch_fields(tree_, id);
    if (is_torch_dict(tree_, id)) return with_fields(Json::object(), fields);
    const PickleObject& made = tree_.object(id);
    const bool named = tree_.is(made.callee, PickleKind::kGlobal);
    Json object = {{"<class>", named ? tree_.global(made.callee).full_name() : "result of a call"}};
    if (!fields.empty()) return with_fields(std::move(object), fields);
    object["<arguments>"] = list_of(tree_.items(made.args));
    return object;
  }

  const TorchFile& file_;
  const PickleTree& tree_;
};

}  // namespace tost::testing
