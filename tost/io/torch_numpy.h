// numpy's scalars and arrays as pickles hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tost/io/pickle_tree.h"
#include "tost/io/torch_dtype.h"

namespace tost {

struct NumpyArray {
  std::string type;                 // numpy's code: "f8", "i2", "U1"
  std::optional<TorchDtype> dtype;  // where torch has the type
  bool scalar = false;
  bool fortran = false;        // columns first
  std::vector<int64_t> shape;  // of an array; the product fits the bytes
  std::string bytes;           // little-endian
};

// The value as numpy would make it: by scalar(), by _reconstruct() and its state, or by
// _frombuffer(), of little-endian elements of a fixed size. nullopt for everything else, damaged
// ones included: they can still be shown as the calls they are.
std::optional<NumpyArray> read_numpy(const PickleTree& tree, PickleId id);

// The bytes a value stands for: bytes, or _codecs.encode(text, "latin1"), as protocol 2 writes
// them.
std::optional<std::string> read_bytes(const PickleTree& tree, PickleId id);

}  // namespace tost
