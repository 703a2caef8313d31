#include "tost/ops/safetensors.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/engine/arrays_file.h"
#include "tost/ops/arrays.h"

namespace tost {
namespace {

Arrays dense_arrays(const std::map<std::string, torch::Tensor>& tensors) {
  Arrays arrays;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined() && tensor.layout() != torch::kStrided) {
      fail_data("Tensor '", name, "' is not dense; safetensors files hold dense tensors only.");
    }
    arrays[name] = tensor.defined() ? array_of(tensor.cpu()) : Array();
  }
  return arrays;
}

}  // namespace

SafetensorsFile load_safetensors(const std::filesystem::path& path) {
  ArraysFile file = load_arrays(path);
  return {take_tensors(file.arrays), std::move(file.metadata)};
}

void save_safetensors(const std::filesystem::path& path,
                      const std::map<std::string, torch::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  save_arrays(path, dense_arrays(tensors), metadata);
}

}  // namespace tost
