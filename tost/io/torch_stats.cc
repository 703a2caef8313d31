#include "tost/io/torch_stats.h"

#include <cmath>
#include <vector>

#include "tost/io/torch_dtype.h"

namespace tost {
namespace {

struct Counter {
  TensorStats stats;

  void add(double value) {
    if (std::isnan(value)) {
      ++stats.nans;
    } else if (std::isinf(value)) {
      ++stats.infinities;
    } else {
      if (!stats.any || value < stats.least) stats.least = value;
      if (!stats.any || value > stats.greatest) stats.greatest = value;
      stats.any = true;
    }
  }
};

// The element type is chosen outside of the loop, for the types weights have.
template <typename Read>
void add_row(Counter& counter, const char* at, int64_t count, int64_t step, Read read) {
  for (int64_t i = 0; i < count; ++i, at += step) counter.add(read(at));
}

}  // namespace

int64_t stats_cost(const TorchTensor& tensor) {
  int64_t cost = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] != 0 || tensor.shape[d] == 0) cost *= tensor.shape[d];
  }
  return cost;
}

TensorStats tensor_stats(const TorchTensor& tensor, std::string_view bytes) {
  Counter counter;
  if (tensor.elements() == 0) return counter.stats;
  const int64_t width = dtype_info(tensor.dtype).bytes;
  std::vector<int64_t> shape, steps;
  int64_t repeats = 1;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] == 0) {
      repeats *= tensor.shape[d];
    } else if (tensor.shape[d] > 1) {
      shape.push_back(tensor.shape[d]);
      steps.push_back(tensor.strides[d] * width);
    }
  }
  const int64_t row = shape.empty() ? 1 : shape.back();
  const int64_t step = shape.empty() ? width : steps.back();
  if (!shape.empty()) shape.pop_back();
  std::vector<int64_t> index(shape.size());
  const char* at = bytes.data() + tensor.offset * width;
  while (true) {
    if (tensor.dtype == TorchDtype::kFloat32) {
      add_row(counter, at, row, step,
              [](const char* p) { return read_element(p, TorchDtype::kFloat32); });
    } else {
      add_row(counter, at, row, step, [&](const char* p) { return read_element(p, tensor.dtype); });
    }
    size_t d = shape.size();
    while (d > 0 && index[d - 1] + 1 == shape[d - 1]) {
      at -= index[d - 1] * steps[d - 1];
      index[--d] = 0;
    }
    if (d == 0) break;
    ++index[d - 1];
    at += steps[d - 1];
  }
  counter.stats.nans *= repeats;
  counter.stats.infinities *= repeats;
  return counter.stats;
}

}  // namespace tost
