#include "tost/io/torch_numpy.h"

#include <charconv>
#include <string_view>

namespace tost {
namespace {

struct Type {
  std::string code;
  std::optional<TorchDtype> dtype;
  int64_t bytes = 0;
};

std::optional<TorchDtype> torch_type(std::string_view code) {
  constexpr struct {
    std::string_view code;
    TorchDtype dtype;
  } kTypes[] = {
      {"f8", TorchDtype::kFloat64},     {"f4", TorchDtype::kFloat32},
      {"f2", TorchDtype::kFloat16},     {"i8", TorchDtype::kInt64},
      {"i4", TorchDtype::kInt32},       {"i2", TorchDtype::kInt16},
      {"i1", TorchDtype::kInt8},        {"u8", TorchDtype::kUInt64},
      {"u4", TorchDtype::kUInt32},      {"u2", TorchDtype::kUInt16},
      {"u1", TorchDtype::kUInt8},       {"b1", TorchDtype::kBool},
      {"c16", TorchDtype::kComplex128}, {"c8", TorchDtype::kComplex64},
  };
  for (const auto& type : kTypes) {
    if (type.code == code) return type.dtype;
  }
  return std::nullopt;
}

bool is_numpy(const PickleTree& tree, PickleId id, std::string_view module, std::string_view name) {
  if (!tree.is(id, PickleKind::kGlobal) || tree.global(id).name != name) return false;
  const std::string_view of = tree.global(id).module;
  for (const std::string_view package : {"numpy.", "numpy.core.", "numpy._core."}) {
    if (of.substr(0, package.size()) == package && of.substr(package.size()) == module) return true;
  }
  return module.empty() && of == "numpy";
}

// dtype("f8", …) with the state (3, "<", …).
std::optional<Type> read_type(const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kObject)) return std::nullopt;
  const PickleObject& made = tree.object(id);
  const auto& args = tree.items(made.args);
  if (!is_numpy(tree, made.callee, "", "dtype") || args.empty() || made.states.size() != 1 ||
      !tree.is(args[0], PickleKind::kString)) {
    return std::nullopt;
  }
  const auto& state = tree.items(made.states[0]);
  if (state.size() < 2 || !(tree.is_string(state[1], "<") || tree.is_string(state[1], "|"))) {
    return std::nullopt;
  }
  const std::string_view code = tree[args[0]].text;
  Type type;
  type.code = code;
  type.dtype = torch_type(code);
  if (code.size() < 2 || code[0] == 'O') return std::nullopt;
  const auto [stop, error] =
      std::from_chars(code.data() + 1, code.data() + code.size(), type.bytes);
  if (error != std::errc() || stop != code.data() + code.size() || type.bytes < 1) {
    return std::nullopt;
  }
  const int64_t unit = code[0] == 'U' ? 4 : 1;
  if (type.bytes > INT64_MAX / unit) return std::nullopt;
  type.bytes *= unit;
  return type;
}

// Whether type and shape need exactly the bytes that are there.
bool fits(const NumpyArray& array, int64_t width) {
  int64_t bytes = width;
  for (const int64_t side : array.shape) {
    if (side < 0 || __builtin_mul_overflow(bytes, side, &bytes)) return false;
  }
  return bytes == static_cast<int64_t>(array.bytes.size());
}

std::optional<NumpyArray> make_array(const PickleTree& tree, PickleId type_id, PickleId bytes_id,
                                     const PickleId* shape_id) {
  const auto type = read_type(tree, type_id);
  auto bytes = type ? read_bytes(tree, bytes_id) : std::nullopt;
  if (!bytes) return std::nullopt;
  NumpyArray array;
  array.type = type->code;
  array.dtype = type->dtype;
  array.bytes = std::move(*bytes);
  array.scalar = shape_id == nullptr;
  if (shape_id != nullptr) {
    if (!tree.is(*shape_id, PickleKind::kTuple)) return std::nullopt;
    for (const PickleId side : tree.items(*shape_id)) {
      if (!tree.is(side, PickleKind::kInt)) return std::nullopt;
      array.shape.push_back(tree[side].integer);
    }
  }
  if (!fits(array, type->bytes)) return std::nullopt;
  return array;
}

}  // namespace

std::optional<std::string> read_bytes(const PickleTree& tree, PickleId id) {
  if (tree.is(id, PickleKind::kBytes)) return std::string(tree[id].text);
  if (!tree.is_call(id, "_codecs", "encode")) return std::nullopt;
  const auto& args = tree.items(tree.object(id).args);
  if (args.size() != 2 || !tree.is(args[0], PickleKind::kString) ||
      !tree.is_string(args[1], "latin1")) {
    return std::nullopt;
  }
  const std::string_view text = tree[args[0]].text;
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      bytes += text[i];
    } else if (first <= 0xc3 && i + 1 < text.size()) {  // up to U+00FF
      bytes += static_cast<char>((first & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::optional<NumpyArray> read_numpy(const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kObject)) return std::nullopt;
  const PickleObject& made = tree.object(id);
  const auto& args = tree.items(made.args);
  if (is_numpy(tree, made.callee, "multiarray", "scalar")) {
    return args.size() == 2 ? make_array(tree, args[0], args[1], nullptr) : std::nullopt;
  }
  if (is_numpy(tree, made.callee, "multiarray", "_reconstruct")) {
    if (made.states.size() != 1) return std::nullopt;
    const auto& state = tree.items(made.states[0]);  // version, shape, type, Fortran order, bytes
    if (state.size() != 5) return std::nullopt;
    auto array = make_array(tree, state[2], state[4], &state[1]);
    if (array) array->fortran = state[3] == PickleTree::kTrueId;
    return array;
  }
  if (is_numpy(tree, made.callee, "numeric", "_frombuffer")) {
    if (args.size() != 4) return std::nullopt;  // buffer, type, shape, order
    auto array = make_array(tree, args[1], args[0], &args[2]);
    if (array) array->fortran = tree.is_string(args[3], "F");
    return array;
  }
  return std::nullopt;
}

}  // namespace tost
