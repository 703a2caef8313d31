// Writes the content of a torch file for tests in Python. For every tensor it writes a line of JSON
// (name, dtype, shape, number of bytes), then its elements in row-major order. The last line is the
// outline of the file.
//
// usage: torch_probe FILE
#include <iostream>
#include <nlohmann/json.hpp>

#include "tost/base/error.h"
#include "tost/io/torch_outline_test_util.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

// Copies element by element, so that strides need no special case.
std::string row_major(const TorchFile& file, const TorchTensor& tensor) {
  const auto width = static_cast<size_t>(dtype_info(tensor.dtype).bytes);
  const std::string_view storage = file.storage_bytes(tensor.storage);
  std::string bytes;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    int64_t rest = i, at = tensor.offset;
    for (size_t d = tensor.shape.size(); d-- > 0;) {
      at += rest % tensor.shape[d] * tensor.strides[d];
      rest /= tensor.shape[d];
    }
    bytes += storage.substr(static_cast<size_t>(at) * width, width);
  }
  return bytes;
}

int probe(const char* path) {
  try {
    const auto file = TorchFile::open(path);
    for (const NamedTorchTensor& named : list_torch_tensors(*file, file->root())) {
      const std::string bytes = row_major(*file, *named.tensor);
      const nlohmann::ordered_json line = {{"name", named.name},
                                           {"dtype", dtype_info(named.tensor->dtype).name},
                                           {"shape", named.tensor->shape},
                                           {"storage", named.tensor->storage},
                                           {"parameter", named.tensor->parameter},
                                           {"bytes", bytes.size()}};
      std::cout << line.dump() << "\n" << bytes;
    }
    const nlohmann::ordered_json end = {
        {"contents", testing::TorchOutline(*file).of(file->root())}};
    std::cout << end.dump() << "\n";
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace tost

int main(int argc, char** argv) {
  return argc == 2 ? tost::probe(argv[1]) : 2;
}
