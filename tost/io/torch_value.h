// Finds values of a torch file: dicts by key (of any dict class), and tensors by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tost/io/torch_file.h"

namespace tost {

// Returns key, value, key, value, … of a dict, OrderedDict, defaultdict or Counter, or of the
// attributes of an argparse.Namespace or another object whose state is a dict. Empty for everything
// else.
std::vector<PickleId> torch_fields(const PickleTree& tree, PickleId id);

// Whether torch_fields() of the value are the items of a dict.
bool is_torch_dict(const PickleTree& tree, PickleId id);

// The value under `key` among the fields; nullopt if there is none.
std::optional<PickleId> torch_field(const PickleTree& tree, PickleId id, std::string_view key);

struct NamedTorchTensor {
  std::string name;  // the keys and positions that lead to it, joined by dots
  PickleId id = 0;
  const TorchTensor* tensor = nullptr;
};

// Lists every tensor that can be reached from `from`, in order. Visits each container once, by the
// first path, so that time is linear in the file; truncates names after 1024 bytes. Throws a data
// Error beyond 200,000 tensors or 64 MiB of names.
std::vector<NamedTorchTensor> list_torch_tensors(const TorchFile& file, PickleId from);

// The number of an int, float or bool; nullopt for everything else.
std::optional<double> torch_number(const PickleTree& tree, PickleId id);

}  // namespace tost
