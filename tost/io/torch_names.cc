// Lists the classes and functions in checkpoints that are known to be harmless.
#include <string>

#include "tost/io/torch_file.h"

namespace tost {
namespace {

// The names of a module's members, with a space around each.
struct Module {
  std::string_view module, names;
};

constexpr std::string_view kPlainTypes =
    " object set frozenset bytearray bytes str int float complex bool list tuple dict slice range ";
constexpr std::string_view kNumpyMakers = " scalar _reconstruct _frombuffer ";

constexpr Module kHarmless[] = {
    {"builtins", kPlainTypes},
    {"__builtin__", kPlainTypes},
    {"__builtin__", " long unicode "},
    {"collections", " OrderedDict defaultdict Counter deque "},
    {"argparse", " Namespace "},
    {"datetime", " datetime date timedelta "},
    {"pathlib", " Path PosixPath PurePosixPath WindowsPath "},
    {"pathlib._local", " PosixPath "},
    {"_codecs", " encode "},
    {"copy_reg", " _reconstructor "},
    {"copyreg", " _reconstructor "},
    {"numpy", " dtype ndarray "},
    {"numpy.core.multiarray", kNumpyMakers},
    {"numpy._core.multiarray", kNumpyMakers},
    {"numpy.core.numeric", kNumpyMakers},
    {"numpy._core.numeric", kNumpyMakers},
    {"torch",
     " Size device Tensor per_tensor_affine per_tensor_symmetric per_channel_affine"
     " per_channel_symmetric per_channel_affine_float_qparams "},
    {"torch._utils",
     " _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter"
     " _rebuild_parameter_with_state _rebuild_qtensor _rebuild_sparse_tensor"
     " _rebuild_nested_tensor _rebuild_meta_tensor_no_storage "},
    {"torch._tensor", " _rebuild_from_type_v2 "},
    {"torch.tensor", " _rebuild_from_type_v2 "},
    {"torch.nn.parameter", " Parameter Buffer "},
    {"torch.serialization", " _get_layout "},
};

}  // namespace

bool is_harmless_name(std::string_view module, std::string_view name) {
  const std::string word = " " + std::string(name) + " ";
  const bool one_word = name.find(' ') == name.npos;
  for (const Module& known : kHarmless) {
    if (one_word && known.module == module && known.names.find(word) != word.npos) return true;
  }
  if (module == "torch" && find_torch_dtype(name) != nullptr) return true;
  const bool storages = module == "torch" || module == "torch.storage" || module == "torch.cuda";
  return storages && find_torch_storage(name) != nullptr;
}

}  // namespace tost
