// Least and greatest value of a tensor, and what is not a number in it.
#pragma once

#include <cstdint>
#include <string_view>

#include "tost/io/torch_file.h"

namespace tost {

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
