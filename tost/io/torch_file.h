// Reads files of torch.save as data: their values, and their tensors as views of the file's bytes.
// Executes and imports nothing, and allocates no memory for a size that the file only claims. Free
// of torch; torch_tensors.h makes torch's tensors from the result.
//
// The reader supports the zip archive of torch 1.6 and later, with NAME/data.pkl, NAME/data/KEY,
// NAME/version and NAME/byteorder. Files of earlier versions, TorchScript programs and big-endian
// files are refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tost/io/pickle.h"
#include "tost/io/torch_dtype.h"

namespace tost {

// A block of bytes in the file, which several tensors may share.
struct TorchStorage {
  std::string_view key;
  std::string_view bytes;  // unchecked; TorchFile::storage_bytes() gives them checked
  uint32_t crc = 0;
};

// The storage that a persistent id of the pickle names.
struct TorchStorageRef {
  size_t storage = 0;  // index of it
  TorchDtype dtype = TorchDtype::kFloat32;
};

// The elements offset + sum(index * stride) of a storage for every index within `shape`. All
// elements are inside the storage.
struct TorchTensor {
  TorchDtype dtype = TorchDtype::kFloat32;
  std::vector<int64_t> shape, strides;  // >= 0, as many of each, at most 64; strides in elements
  int64_t offset = 0;                   // in elements
  size_t storage = 0;                   // index of it
  bool requires_grad = false;
  bool parameter = false;  // torch.nn.Parameter

  int64_t elements() const;
  bool contiguous() const;
};

// Limits the elements of a tensor whose strides of 0 repeat elements of the storage.
inline constexpr int64_t kMaxExpandedElements = int64_t{1} << 24;

// The values and storages of an archive.
struct TorchParts {
  std::string version;
  PickleTree tree;
  std::vector<TorchStorage> storages;
  std::unordered_map<PickleId, TorchStorageRef> storage_of;  // by persistent id
};

class TorchFile {
 public:
  // Maps the file for the lifetime of the object. Changes of the bytes do not change the file.
  // Throws a data Error for every defect.
  static std::shared_ptr<const TorchFile> open(const std::filesystem::path& path);
  // Reads a file in memory that `owner` keeps alive; messages call it `name`.
  static std::shared_ptr<const TorchFile> parse(std::string_view bytes, const std::string& name,
                                                std::shared_ptr<const void> owner = nullptr);

  const std::string& name() const { return name_; }
  const std::string& version() const { return parts_.version; }
  const PickleTree& tree() const { return parts_.tree; }
  PickleId root() const { return parts_.tree.root(); }

  const std::vector<TorchStorage>& storages() const { return parts_.storages; }
  // The bytes of a storage, checked once. Throws a data Error for a wrong checksum.
  std::string_view storage_bytes(size_t storage) const;

  // The value as a tensor; nullptr if the value is no tensor.
  const TorchTensor* tensor(PickleId id) const;

 private:
  TorchFile() = default;

  std::string name_;
  std::shared_ptr<const void> owner_;
  TorchParts parts_;
  std::unordered_map<PickleId, TorchTensor> tensors_;
  mutable std::unique_ptr<std::atomic<bool>[]> checked_;
};

// Whether the bytes begin like a file of torch.save, of any version.
bool looks_like_torch_file(std::string_view bytes);

[[noreturn]] void fail_torch(const std::string& file, const std::string& what);

// Whether the name is in the list of harmless constructors: torch's tensors, storages and types,
// numpy's arrays, and containers and numbers of Python. Other names may be harmful.
bool is_harmless_name(std::string_view module, std::string_view name);

}  // namespace tost
