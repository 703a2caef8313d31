// Arrays in safetensors files. The reader executes no code and trusts no size.
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

// Reads the types F64 F32 F16 BF16 F8_E5M2 F8_E4M3 I64 I32 I16 I8 U64 U32 U16 U8 BOOL. The file is
// mapped, so that bytes are read at their first use; the arrays keep the mapping alive, and changes
// of arrays never reach the file. A file that is truncated while its arrays are in use ends the
// program, as with every mapping; replacing the file does not. `path` may also be an index of
// shards (safetensors_index.h), which gives the arrays of all shards. Throws a data Error naming
// file and tensor for every violation of the format (safetensors_header.h), for booleans other than
// 0 and 1, and for shards that do not match the index or each other.
ArraysFile load_arrays(const std::filesystem::path& path);

// The same from memory. Reads a file's content; messages call the file `name`.
ArraysFile parse_arrays(std::shared_ptr<std::string> bytes, const std::string& name);

// Writes atomically and durably: after a crash there is the old file or the new one. Orders wide
// types first, then names, so that every tensor is aligned to its type; the data begin at a
// multiple of 8. Strides may have any value. Throws a data Error naming an array of another type.
void save_arrays(const std::filesystem::path& path, const Arrays& arrays,
                 const std::map<std::string, std::string>& metadata = {});

// Returns the bytes that save_arrays() would write.
std::string arrays_bytes(const Arrays& arrays,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace tost
