// Tensors of torch files.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "tost/io/torch_file.h"
#include "tost/torch.h"

namespace tost {

// Makes tensors that point into the mapped file and keep it alive; a storage that the file does not
// align is copied once. Tensors that shared a storage when they were
// saved share it here, so tied weights stay tied. Writing to a tensor never reaches the file.
class TorchTensorReader {
 public:
  explicit TorchTensorReader(std::shared_ptr<const TorchFile> file);

  // CPU, without gradient, with the strides of the file. `id` must be a tensor of the file. Throws
  // a data Error where the storage's checksum does not fit, where a bool is neither 0 nor 1, and
  // for quantised and raw types.
  torch::Tensor tensor(PickleId id);

  // The tensors among the items of a dict, by key; other items are left out. Throws a data Error
  // naming `what` where the value is not a dict of string keys or holds no tensor.
  std::map<std::string, torch::Tensor> state_dict(PickleId dict, const std::string& what);

 private:
  const c10::Storage& block(size_t storage);

  std::shared_ptr<const TorchFile> file_;
  std::map<size_t, c10::Storage> blocks_;
  std::set<size_t> booleans_;  // storages whose bytes are known to be 0 or 1
};

}  // namespace tost
