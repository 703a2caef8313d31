#include "tost/ops/torch_tensors.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "tost/base/error.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

c10::ScalarType scalar_type(TorchDtype dtype, const std::string& file) {
  if (const auto i = size_t(dtype); i < kScalarTypes.size()) return kScalarTypes[i];
  fail_data("'", file, "' holds a tensor of type ", dtype_info(dtype).name, ", which is not read.");
}

// Verifies the checksums of all storages on all threads, because one thread takes as long as a read
// of the file.
void check_storages(const TorchFile& file, const std::vector<PickleId>& fields) {
  std::set<size_t> found;
  for (const PickleId id : fields) {
    if (const TorchTensor* tensor = file.tensor(id)) found.insert(tensor->storage);
  }
  const std::vector<size_t> storages(found.begin(), found.end());
  std::atomic<size_t> next = 0;
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < storages.size(); i = next++) file.storage_bytes(storages[i]);
  });
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
    check_booleans(file_->storage_bytes(place->storage), cat("'", file_->name(), "'"));
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
  check_storages(*file_, fields);
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (file_->tensor(fields[i + 1]) == nullptr) continue;
    if (!tree.is(fields[i], PickleKind::kString)) {
      fail_data("'", file_->name(), "': ", what,
                " holds a tensor under a key that is not a string.");
    }
    state.emplace(std::string(tree[fields[i]].text), tensor(fields[i + 1]));
  }
  if (state.empty()) fail_data("'", file_->name(), "': ", what, " holds no tensors by name.");
  return state;
}

}  // namespace tost
