#include "tost/io/torch_names.h"

#include "tost/io/torch_dtype.h"

namespace tost {
namespace {

struct Name {
  std::string_view module, name;
};

constexpr Name kHarmless[] = {
    {"collections", "OrderedDict"},
    {"collections", "defaultdict"},
    {"collections", "Counter"},
    {"collections", "deque"},
    {"argparse", "Namespace"},
    {"torch", "Size"},
    {"torch", "device"},
    {"torch", "Tensor"},
    {"torch", "per_tensor_affine"},
    {"torch", "per_tensor_symmetric"},
    {"torch", "per_channel_affine"},
    {"torch", "per_channel_symmetric"},
    {"torch", "per_channel_affine_float_qparams"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_tensor_v3"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._utils", "_rebuild_qtensor"},
    {"torch._utils", "_rebuild_sparse_tensor"},
    {"torch._utils", "_rebuild_nested_tensor"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch.tensor", "_rebuild_from_type_v2"},
    {"torch.nn.parameter", "Parameter"},
    {"torch.nn.parameter", "Buffer"},
    {"torch.serialization", "_get_layout"},
    {"numpy", "dtype"},
    {"numpy", "ndarray"},
    {"_codecs", "encode"},
    {"copy_reg", "_reconstructor"},
    {"copyreg", "_reconstructor"},
    {"datetime", "datetime"},
    {"datetime", "date"},
    {"datetime", "timedelta"},
    {"pathlib", "Path"},
    {"pathlib", "PosixPath"},
    {"pathlib", "PurePosixPath"},
    {"pathlib", "WindowsPath"},
    {"pathlib._local", "PosixPath"},
};
constexpr std::string_view kPlainTypes[] = {
    "object", "set",  "frozenset", "bytearray", "bytes", "str",   "int",  "float",  "complex",
    "bool",   "list", "tuple",     "dict",      "slice", "range", "long", "unicode"};
constexpr std::string_view kNumpyMakers[] = {"scalar", "_reconstruct", "_frombuffer"};

bool is_one_of(std::string_view name, const std::string_view* begin, const std::string_view* end) {
  for (; begin != end; ++begin) {
    if (*begin == name) return true;
  }
  return false;
}

}  // namespace

bool is_harmless_name(std::string_view module, std::string_view name) {
  for (const Name& known : kHarmless) {
    if (known.module == module && known.name == name) return true;
  }
  if (module == "builtins" || module == "__builtin__") {
    return is_one_of(name, std::begin(kPlainTypes), std::end(kPlainTypes));
  }
  if (module == "torch" && find_torch_dtype(name) != nullptr) return true;
  if (module == "torch" || module == "torch.storage" || module == "torch.cuda") {
    return find_torch_storage(name) != nullptr;
  }
  if (module == "numpy.core.multiarray" || module == "numpy._core.multiarray" ||
      module == "numpy.core.numeric" || module == "numpy._core.numeric") {
    return is_one_of(name, std::begin(kNumpyMakers), std::end(kNumpyMakers));
  }
  return false;
}

}  // namespace tost
