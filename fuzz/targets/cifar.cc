// Files of CIFAR-10 and CIFAR-100.
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/io/picture_files.h"

namespace tost::fuzz {

void try_cifar(std::string_view input) {
  const unsigned choice = take_choice(input);
  const MemoryFile file(input);
  if (choice % 3 == 2) {
    return or_refuse([&] {
      for (const auto& name : read_class_names(file.path())) require(!name.empty(), "a name");
    });
  }
  or_refuse([&] {
    const auto kind = choice % 3 == 0 ? CifarKind::kCifar10 : CifarKind::kCifar100;
    CifarRecords records;
    append_cifar(file.path(), kind, 10, records);
    append_cifar(file.path(), kind, 10, records);
    require(records.pixels.size() == records.labels.size() * size_t{kCifarImageBytes},
            "as many pictures as labels");
    for (const uint8_t label : records.labels) require(label < 10, "labels below the classes");
  });
}

}  // namespace tost::fuzz
