// Files of idx, plain and by gzip.
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/io/picture_files.h"

namespace tost::fuzz {

void try_idx(std::string_view input) {
  const int64_t dimensions = take_choice(input) % 2 == 0 ? 3 : 1;
  const MemoryFile file(input);
  or_refuse([&] {
    const IdxArray array = read_idx(file.path(), dimensions, 1 << 20);
    size_t claimed = 1;
    for (const int64_t side : array.dims) claimed *= static_cast<size_t>(side);
    require(array.dims.size() == static_cast<size_t>(dimensions), "the rank asked for");
    require(array.values.size() == claimed, "as many values as the sides say");
  });
}

}  // namespace tost::fuzz
