// The two layouts of torch.save, and what they share.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "tost/io/torch_file.h"

namespace tost {

[[noreturn]] void fail_torch(const std::string& file, const std::string& what);

// NAME/data.pkl, NAME/data/KEY, NAME/version, NAME/byteorder in a zip archive.
TorchParts read_torch_zip(std::string_view bytes, const std::string& file);

// Pickles of the magic number, the protocol, the machine, the object and the storages' keys, then
// for every key a count of elements and the elements.
TorchParts read_torch_legacy(std::string_view bytes, const std::string& file);
bool looks_like_torch_legacy(std::string_view bytes);

// A persistent id ("storage", class, key, location, elements[, view]).
struct TorchStorageRef {
  const TorchDtypeInfo* dtype = nullptr;
  std::string_view key, location;
  int64_t elements = 0;
  bool is_view = false;  // of the legacy layout: `view_elements` from `view_offset` on
  std::string_view view_key;
  int64_t view_offset = 0, view_elements = 0;
};

// Reads it. False for ("module", ...), which the legacy layout writes for classes of modules.
bool read_storage_ref(const PickleTree& tree, PickleId id, const std::string& file,
                      TorchStorageRef& ref);

// Every tensor among the objects of the tree, checked against its storage.
std::unordered_map<PickleId, TorchTensor> rebuild_tensors(const TorchParts& parts,
                                                          const std::string& file);

// A tuple or list of integers >= 0 (or a torch.Size of one); `what` names it in messages.
std::vector<int64_t> read_sizes(const PickleTree& tree, PickleId id, const std::string& what,
                                const std::string& file);

}  // namespace tost
