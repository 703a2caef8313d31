// Arrays in safetensors files. Reading executes nothing and trusts nothing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tost/engine/array.h"

namespace tost {

struct ArraysFile {
  Arrays arrays;                                // contiguous
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Reads F64 F32 F16 BF16 F8_E5M2 F8_E4M3 I64 I32 I16 I8 U64 U32 U16 U8 BOOL. The file is mapped, so
// that an array's bytes are read when they are first used; the arrays keep the mapping alive, and
// writing to them never reaches the file. A file that is cut short while arrays of it are in use
// ends the program, as with every mapping; one that is replaced (as all writers here do) does no
// harm. `path` may also be an index of shards (safetensors_index.h): all of them together. Throws a
// data Error naming file and tensor for every violation of the format (safetensors_header.h), for
// booleans other than 0 and 1, and for shards that do not belong together: a tensor in another
// shard than the index states, one it does not name, or metadata that differs.
ArraysFile load_arrays(const std::filesystem::path& path);

// The same from memory. Messages call the file `name`.
ArraysFile parse_arrays(std::shared_ptr<std::string> bytes, const std::string& name);

// Writes atomically and durably: after a crash there is the old file or the new one. Deterministic:
// wide types first, then by name, so that every tensor is aligned to its type; the data starts at a
// multiple of 8. Any strides; types above, or a
// data Error names the array.
void save_arrays(const std::filesystem::path& path, const Arrays& arrays,
                 const std::map<std::string, std::string>& metadata = {});

// The bytes that save_arrays() writes.
std::string arrays_bytes(const Arrays& arrays,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace tost
