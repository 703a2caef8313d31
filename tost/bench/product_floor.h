// Lower bounds for every implementation on the same library: the time of only the matrix products
// of a network, and of one read of memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// x [rows, inputs] times a weight [outputs, inputs]. A convolution counts as a product with a row
// for every output pixel.
struct Product {
  int64_t rows = 0, inputs = 0, outputs = 0;
  // For a convolution of stride 1 or 2 with a 3x3 window; else 0.
  int64_t batch = 0, channels = 0, height = 0, width = 0, stride = 0;

  double gflop() const { return 2e-9 * double(rows) * double(inputs) * double(outputs); }
  bool operator==(const Product&) const = default;
};

// Appends the products of the model's Linear layers: `rows` of each, found by its name. Where it
// gives 0, the layer is left out.
void add_linears(const torch::nn::Module& model,
                 const std::function<int64_t(const std::string& name)>& rows,
                 std::vector<Product>& products);

struct ProductFloor {
  double ms = 0, gflop = 0;
};

// Every product has separate weights, in the network's order: the median of `repeat` passes of each
// by at::mm and by at::linear (convolutions by at::mm of their rows and by at::conv2d, channels
// last), the better of the two, and their sum. precision: fp32, bf16; int8 multiplies integers
// (at::_int_mm) and its convolutions in bf16. ms is 0 where this torch has no such product.
// Products of many rows are timed in part and scaled.
ProductFloor measure_products(const std::vector<Product>& products, Precision precision,
                              int64_t repeat, torch::Device device = torch::kCPU);

// Milliseconds of one plain pass over a buffer of `bytes` bytes, 8 or more, on all threads of
// torch; the best of several, as noise only adds.
double memory_read_ms(int64_t bytes);

// The same on a GPU: half of the time to copy as many bytes from memory that is not in its caches.
double memory_read_ms(int64_t bytes, c10::Device device);

}  // namespace tost
