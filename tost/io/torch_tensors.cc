#include "tost/io/torch_tensors.h"

#include <cstring>
#include <utility>

#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

c10::ScalarType scalar_type(TorchDtype dtype, const std::string& file) {
  switch (dtype) {
    case TorchDtype::kFloat64:
      return torch::kFloat64;
    case TorchDtype::kFloat32:
      return torch::kFloat32;
    case TorchDtype::kFloat16:
      return torch::kFloat16;
    case TorchDtype::kBFloat16:
      return torch::kBFloat16;
    case TorchDtype::kInt64:
      return torch::kInt64;
    case TorchDtype::kInt32:
      return torch::kInt32;
    case TorchDtype::kInt16:
      return torch::kInt16;
    case TorchDtype::kInt8:
      return torch::kInt8;
    case TorchDtype::kUInt64:
      return torch::kUInt64;
    case TorchDtype::kUInt32:
      return torch::kUInt32;
    case TorchDtype::kUInt16:
      return torch::kUInt16;
    case TorchDtype::kUInt8:
      return torch::kUInt8;
    case TorchDtype::kBool:
      return torch::kBool;
    case TorchDtype::kComplex128:
      return torch::kComplexDouble;
    case TorchDtype::kComplex64:
      return torch::kComplexFloat;
    case TorchDtype::kComplex32:
      return torch::kComplexHalf;
    case TorchDtype::kFloat8E5m2:
      return torch::kFloat8_e5m2;
    case TorchDtype::kFloat8E4m3fn:
      return torch::kFloat8_e4m3fn;
    case TorchDtype::kFloat8E5m2fnuz:
      return torch::kFloat8_e5m2fnuz;
    case TorchDtype::kFloat8E4m3fnuz:
      return torch::kFloat8_e4m3fnuz;
    case TorchDtype::kFloat8E8m0fnu:
      return torch::kFloat8_e8m0fnu;
    case TorchDtype::kFloat4E2m1fnX2:
      return torch::kFloat4_e2m1fn_x2;
    default:
      fail_data("'", file, "' holds a tensor of type ", dtype_info(dtype).name,
                ", which is not read.");
  }
}

// Any other byte in a bool is undefined behaviour in C++.
void check_booleans(std::string_view bytes, const std::string& file) {
  for (const char byte : bytes) {
    if (static_cast<unsigned char>(byte) > 1) {
      fail_data("'", file, "' holds the byte ", int{static_cast<unsigned char>(byte)},
                " in a bool; only 0 and 1 are allowed.");
    }
  }
}

}  // namespace

TorchTensorReader::TorchTensorReader(std::shared_ptr<const TorchFile> file)
    : file_(std::move(file)) {}

const c10::Storage& TorchTensorReader::block(size_t storage) {
  const auto found = blocks_.find(storage);
  if (found != blocks_.end()) return found->second;
  const std::string_view bytes = file_->storage_bytes(storage);
  const auto size = static_cast<int64_t>(bytes.size());
  torch::Tensor raw;
  if (!bytes.empty() && reinterpret_cast<uintptr_t>(bytes.data()) % 16 == 0) {
    raw = torch::from_blob(
        const_cast<char*>(bytes.data()), {size}, [keep = file_](void*) {}, torch::kUInt8);
  } else {
    raw = torch::empty({size}, torch::kUInt8);
    if (size > 0) std::memcpy(raw.data_ptr(), bytes.data(), bytes.size());
  }
  return blocks_.emplace(storage, raw.storage()).first->second;
}

torch::Tensor TorchTensorReader::tensor(PickleId id) {
  const TorchTensor* place = file_->tensor(id);
  if (place == nullptr) fail_data("'", file_->name(), "' holds no tensor there.");
  const auto type = scalar_type(place->dtype, file_->name());
  const c10::Storage& bytes = block(place->storage);
  if (type == torch::kBool && booleans_.count(place->storage) == 0) {
    check_booleans(file_->storage_bytes(place->storage), file_->name());
    booleans_.insert(place->storage);
  }
  const torch::NoGradGuard no_grad;
  return torch::empty({0}, type).set_(bytes, place->offset, place->shape, place->strides);
}

std::map<std::string, torch::Tensor> TorchTensorReader::state_dict(PickleId dict,
                                                                   const std::string& what) {
  const PickleTree& tree = file_->tree();
  std::map<std::string, torch::Tensor> state;
  const auto fields = torch_fields(tree, dict);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (file_->tensor(fields[i + 1]) == nullptr) continue;
    if (!tree.is(fields[i], PickleKind::kString)) {
      fail_data("'", file_->name(), "': ", what, " holds a tensor under a key that is no string.");
    }
    state.emplace(std::string(tree[fields[i]].text), tensor(fields[i + 1]));
  }
  if (state.empty()) fail_data("'", file_->name(), "': ", what, " holds no tensors by name.");
  return state;
}

}  // namespace tost
