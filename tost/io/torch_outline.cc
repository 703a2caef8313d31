#include "tost/io/torch_outline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_dtype.h"
#include "tost/io/torch_numpy.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_text(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string long_integer(std::string_view bytes) {
  std::string hex = "<integer 0x";
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = bytes.size(); i-- > bytes.size() - std::min<size_t>(bytes.size(), 16);) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex + (bytes.size() > 16 ? "…>" : ">");
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
        return number_or_text(value.number);
      case PickleKind::kString:
        return escaped(value.text);
      case PickleKind::kBigInt:
        return long_integer(value.text);
      case PickleKind::kBytes:
        return cat("<", value.text.size(), " bytes>");
      case PickleKind::kGlobal:
        return "<" + escaped(tree_.global(id).full_name()) + ">";
      case PickleKind::kPersistentId:
        return storage_text(id);
      case PickleKind::kDict:
        return show_fields(tree_.items(id), depth);
      case PickleKind::kObject:
        return show_object(id, depth);
      default:
        return show_list(tree_.items(id), depth);
    }
  }

 private:
  std::string storage_text(PickleId id) const {
    const size_t* storage = file_.storage(id);
    if (storage == nullptr) return "<reference>";
    return cat("<storage ", escaped(file_.storages()[*storage].key), " of ",
               file_.storages()[*storage].bytes.size(), " bytes>");
  }

  Json show_list(const std::vector<PickleId>& items, int64_t depth) {
    if (depth >= limits_.depth && !items.empty()) return cat("<", items.size(), " items>");
    Json list = Json::array();
    for (size_t i = 0; i < items.size(); ++i) {
      if (static_cast<int64_t>(i) >= limits_.length || left_ <= 0) {
        list.push_back(cat("… ", items.size() - i, " more"));
        break;
      }
      list.push_back(show(items[i], depth + 1));
    }
    return list;
  }

  Json show_fields(const std::vector<PickleId>& pairs, int64_t depth) {
    const size_t count = pairs.size() / 2;
    // A dict that many paths lead to is looked through as often.
    left_ -= static_cast<int64_t>(count / 256);
    size_t tensors = 0, records = 0;
    for (size_t i = 1; i < pairs.size(); i += 2) {
      tensors += file_.tensor(pairs[i]) != nullptr ? 1 : 0;
      records += is_record(pairs[i]) ? 1 : 0;
    }
    if (count > 3 && tensors == count) return cat("<", count, " tensors>");
    if (count > 3 && records == count) return cat("<", count, " dicts with tensors>");
    if (depth >= limits_.depth && count > 0) return cat("<dict of ", count, ">");
    Json object = Json::object();
    for (size_t i = 0; i < count; ++i) {
      if (static_cast<int64_t>(i) >= limits_.length || left_ <= 0) {
        object["…"] = cat(count - i, " more");
        break;
      }
      object[key_text(pairs[2 * i])] = show(pairs[2 * i + 1], depth + 1);
    }
    return object;
  }

  // Such as the moments an optimiser keeps of one parameter.
  bool is_record(PickleId id) const {
    if (!tree_.is(id, PickleKind::kDict)) return false;
    const auto& pairs = tree_.items(id);
    for (size_t i = 1; i < std::min<size_t>(pairs.size(), 8); i += 2) {
      if (file_.tensor(pairs[i]) != nullptr) return true;
    }
    return false;
  }

  // Angle brackets are the outline's own.
  std::string key_text(PickleId key) {
    const Json text = show(key, limits_.depth);
    if (!text.is_string()) return json_text(text);
    const auto word = text.get<std::string>();
    return tree_.is(key, PickleKind::kString) && word.substr(0, 1) == "<" ? "\\" + word : word;
  }

  Json show_object(PickleId id, int64_t depth) {
    if (const TorchTensor* tensor = file_.tensor(id)) return tensor_json(id, *tensor);
    if (const auto array = read_numpy(tree_, id)) {
      left_ -= static_cast<int64_t>(array->bytes.size() / 4096);
      if (const auto scalar = torch_number(file_, id)) return number_or_text(*scalar);
      return "<numpy " + escaped(array->type) + " " + shape_text(array->shape) + ">";
    }
    if (const auto bytes = read_bytes(tree_, id)) {
      left_ -= static_cast<int64_t>(bytes->size() / 4096);
      return cat("<", bytes->size(), " bytes>");
    }
    if (is_torch_dict(tree_, id)) return show_fields(torch_fields(tree_, id), depth);
    const PickleObject& made = tree_.object(id);
    const std::string name = tree_.is(made.callee, PickleKind::kGlobal)
                                 ? escaped(tree_.global(made.callee).full_name())
                                 : cat("<result of a call>");
    const auto& args = tree_.items(made.args);
    const auto fields = torch_fields(tree_, id);
    if (depth >= limits_.depth) return "<" + name + ">";
    if (made.states.empty() && made.dict_items.empty() && made.list_items.empty() &&
        args.size() == 1 && tree_.is(args[0], PickleKind::kString)) {
      return "<" + name + " " + shown(tree_[args[0]].text) + ">";
    }
    Json object = Json::object();
    object["<class>"] = name;
    if (!tree_.is(made.callee, PickleKind::kGlobal))
      object["<callee>"] = show(made.callee, depth + 1);
    if (!args.empty()) object["<arguments>"] = show_list(args, depth + 1);
    if (!made.list_items.empty()) object["<items>"] = show_list(made.list_items, depth + 1);
    if (!made.dict_items.empty()) object["<entries>"] = show_fields(made.dict_items, depth + 1);
    if (fields.empty() && !made.states.empty())
      object["<state>"] = show_list(made.states, depth + 1);
    if (!fields.empty()) {
      const Json attributes = show_fields(fields, depth);
      if (attributes.is_object()) {
        object.update(attributes);
      } else {
        object["<state>"] = attributes;
      }
    }
    return object;
  }

  Json tensor_json(PickleId id, const TorchTensor& tensor) const {
    if (tensor.shape.empty() && is_real(tensor.dtype)) {
      return number_or_text(torch_number(file_, id).value_or(0));
    }
    return cat("<", tensor.parameter ? "parameter " : "tensor ", dtype_info(tensor.dtype).name, " ",
               shape_text(tensor.shape), ">");
  }

  const TorchFile& file_;
  const PickleTree& tree_;
  const OutlineLimits& limits_;
  int64_t left_;
};

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += cat(d > 0 ? ", " : "", shape[d]);
  return text + "]";
}

nlohmann::ordered_json outline(const TorchFile& file, PickleId id, const OutlineLimits& limits) {
  return Outliner(file, limits).show(id, 0);
}

namespace {

struct Counter {
  TensorStats stats;

  void add(double value) {
    if (std::isnan(value)) {
      ++stats.nans;
    } else if (std::isinf(value)) {
      ++stats.infinities;
    } else {
      if (!stats.any || value < stats.least) stats.least = value;
      if (!stats.any || value > stats.greatest) stats.greatest = value;
      stats.any = true;
    }
  }
};

// The element type is chosen outside of the loop, for the types weights have.
template <typename Read>
void add_row(Counter& counter, const char* at, int64_t count, int64_t step, Read read) {
  for (int64_t i = 0; i < count; ++i, at += step) counter.add(read(at));
}

}  // namespace

int64_t stats_cost(const TorchTensor& tensor) {
  int64_t cost = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] != 0 || tensor.shape[d] == 0) cost *= tensor.shape[d];
  }
  return cost;
}

TensorStats tensor_stats(const TorchTensor& tensor, std::string_view bytes) {
  Counter counter;
  if (tensor.elements() == 0) return counter.stats;
  const int64_t width = dtype_info(tensor.dtype).bytes;
  std::vector<int64_t> shape, steps;
  int64_t repeats = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] == 0) {
      repeats *= tensor.shape[d];
    } else if (tensor.shape[d] > 1) {
      shape.push_back(tensor.shape[d]);
      steps.push_back(tensor.strides[d] * width);
    }
  }
  const int64_t row = shape.empty() ? 1 : shape.back();
  const int64_t step = shape.empty() ? width : steps.back();
  if (!shape.empty()) shape.pop_back();
  std::vector<int64_t> index(shape.size());
  const char* at = bytes.data() + tensor.offset * width;
  while (true) {
    if (tensor.dtype == TorchDtype::kFloat32) {
      add_row(counter, at, row, step,
              [](const char* p) { return read_element(p, TorchDtype::kFloat32); });
    } else {
      add_row(counter, at, row, step, [&](const char* p) { return read_element(p, tensor.dtype); });
    }
    size_t d = shape.size();
    while (d > 0 && index[d - 1] + 1 == shape[d - 1]) {
      at -= index[d - 1] * steps[d - 1];
      index[--d] = 0;
    }
    if (d == 0) break;
    ++index[d - 1];
    at += steps[d - 1];
  }
  counter.stats.nans *= repeats;
  counter.stats.infinities *= repeats;
  return counter.stats;
}

}  // namespace tost
