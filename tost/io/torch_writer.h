// Files of torch.save, written: what torch.load(weights_only=True) reads. Free of torch.
//
// The zip layout of torch 1.6 and later with a pickle of protocol 2. Deterministic: the same value
// gives the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tost/io/torch_dtype.h"

namespace tost {

// A dense tensor, its elements in the order of its indices; the bytes stay with the caller.
struct TorchArray {
  TorchDtype dtype = TorchDtype::kFloat32;
  std::vector<int64_t> shape;
  std::string_view bytes;
};

// What a file holds: a value, or with `keys` a dict of such.
struct TorchItem {
  enum class Dict { kPlain, kOrdered, kNamespace };  // dict, OrderedDict, argparse.Namespace

  std::variant<std::monostate, bool, int64_t, double, std::string, TorchArray, Dict> value;
  std::vector<std::string> keys;  // of a dict, as many as items
  std::vector<TorchItem> items;

  void add(std::string key, TorchItem item);
};

TorchItem torch_dict(TorchItem::Dict kind = TorchItem::Dict::kPlain);

// Atomic and durable, as write_file_atomic(). Arrays of the same bytes share their storage. Throws
// a data Error for an array whose bytes do not fit its shape, and for types torch has no storage
// of.
void save_torch_file(const std::filesystem::path& path, const TorchItem& root);

}  // namespace tost
