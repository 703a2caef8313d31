// What a torch file holds, as JSON of bounded depth and length.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

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

// Least and greatest value of a tensor, and what is not a number in it.

struct TensorStats {
  bool any = false;                // whether there is a finite number
  double least = 0, greatest = 0;  // of the finite numbers
  int64_t nans = 0, infinities = 0;
};

// Of a real type (is_real()). `bytes` is the storage. The elements are read where they lie, one at
// a time; a dimension of stride 0 is read once.
TensorStats tensor_stats(const TorchTensor& tensor, std::string_view bytes);

// How many elements tensor_stats() reads.
int64_t stats_cost(const TorchTensor& tensor);

}  // namespace tost
