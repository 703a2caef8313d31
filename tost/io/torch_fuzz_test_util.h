// The work of the fuzz target (fuzz/targets/torch_file.cc) and the replay of its corpus: everything
// a reader of outside files does, except making tensors.
#pragma once

#include <string>
#include <string_view>

#include "tost/base/error.h"
#include "tost/io/torch_file.h"
#include "tost/io/torch_test_util.h"
#include "tost/io/torch_value.h"

namespace tost::testing {

inline void walk_torch_file(std::string_view bytes) {
  const auto file = TorchFile::parse(bytes, "fuzz");
  for (size_t i = 0; i < file->storages().size(); ++i) file->storage_bytes(i);
  list_torch_tensors(*file, file->root());
  for (PickleId id = 0; id < file->tree().size(); ++id) torch_fields(file->tree(), id);
  for (const PickleGlobal& named : file->tree().globals()) {
    is_harmless_name(named.module, named.name);
  }
}

// The first byte selects how the rest is read: even, as a file; odd, as the pickle of an archive
// with one storage of 16 bytes, because a checksum would stop most changes. Every defect must throw
// tost::Error; any other exception is a finding.
inline void try_torch_bytes(std::string_view input) {
  if (input.empty()) return;
  std::string file(input.substr(1));
  if (input[0] % 2 != 0) {
    file = make_zip({{"m/data.pkl", file}, {"m/data/0", std::string(16, 1)}, {"m/version", "3"}})
               .bytes;
  }
  try {
    walk_torch_file(file);
  } catch (const Error&) {
  }
}

}  // namespace tost::testing
