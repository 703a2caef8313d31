// What a torch file holds, as JSON of bounded depth and length.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/io/torch_file.h"

namespace tost {

struct OutlineLimits {
  int64_t depth = 5;      // containers in each other
  int64_t length = 40;    // items of one container
  int64_t values = 4000;  // in all
};

// Dicts become objects (keys escaped), tuples, lists and sets arrays; numbers, texts and None
// themselves. Tensors, bytes, classes and the like become texts in angle brackets; any other object
// its attributes with its class under "<class>", or its arguments. What is beyond a limit is
// counted under or as "…". A dict of tensors, or of dicts with tensors, becomes a text.
nlohmann::ordered_json outline(const TorchFile& file, PickleId id,
                               const OutlineLimits& limits = {});

}  // namespace tost
