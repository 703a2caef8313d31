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

// Dicts become objects (keys escaped), tuples, lists and sets arrays, numbers and None themselves;
// tensors, arrays, bytes and types texts in angle brackets; any other object one with the class
// under "<class>" and its arguments and attributes. What lies beyond a limit is counted under or as
// "…". A dict of tensors, or of
// dicts with tensors, becomes a text that says how many.
nlohmann::ordered_json outline(const TorchFile& file, PickleId id,
                               const OutlineLimits& limits = {});

// "[3, 4]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tost
