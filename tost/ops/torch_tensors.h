// Tensors of torch files, and the element types of files as those of tensors.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tost/io/torch_dtype.h"
#include "tost/io/torch_file.h"
#include "tost/torch.h"

namespace tost {

// Makes tensors that point into the mapped file and keep it alive; copies a storage that is not
// aligned. Tensors that were saved with a shared storage share a storage again, so tied weights
// stay tied. Writing to a tensor does not change the file.
class TorchTensorReader {
 public:
  explicit TorchTensorReader(std::shared_ptr<const TorchFile> file);

  // Makes the tensor `id` of the file on the CPU, without gradient, with the file's strides. Throws
  // a data Error for a wrong checksum of the storage, a bool that is neither 0 nor 1, and quantised
  // and raw types.
  torch::Tensor tensor(PickleId id);

  // Makes tensors from the items of a dict that are tensors, by key. Throws a data Error naming
  // `what` if the value is not a dict of string keys or holds no tensor.
  std::map<std::string, torch::Tensor> state_dict(PickleId dict, const std::string& what);

 private:
  const c10::Storage& block(size_t storage);

  std::shared_ptr<const TorchFile> file_;
  std::map<size_t, c10::Storage> blocks_;
  std::set<size_t> booleans_;  // storages whose bytes are known to be 0 or 1
};

// The types in the order of TorchDtype, up to the last one that tensors can have.
inline constexpr auto kScalarTypes = [] {
  using enum c10::ScalarType;
  return std::array{Double,
                    Float,
                    Half,
                    BFloat16,
                    Long,
                    Int,
                    Short,
                    Char,
                    UInt64,
                    UInt32,
                    UInt16,
                    Byte,
                    Bool,
                    Float8_e5m2,
                    Float8_e4m3fn,
                    Float8_e5m2fnuz,
                    Float8_e4m3fnuz,
                    Float8_e8m0fnu,
                    ComplexDouble,
                    ComplexFloat,
                    ComplexHalf,
                    Float4_e2m1fn_x2};
}();
static_assert(kScalarTypes.size() == size_t(TorchDtype::kFloat4E2m1fnX2) + 1);

}  // namespace tost
