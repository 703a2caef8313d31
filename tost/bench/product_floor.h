// Lower bounds for the time of a network: that of its matrix products, or of reading its weights.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// A product of x [rows, inputs] and a weight [outputs, inputs]. A convolution counts as a product
// with a row for every output pixel.
struct Product {
  int64_t rows = 0, inputs = 0, outputs = 0;
  // The stride, 1 or 2, of a convolution with a 3x3 window; 0 for other products.
  int64_t batch = 0, channels = 0, height = 0, width = 0, stride = 0;

  double gflop() const { return 2e-9 * double(rows) * double(inputs) * double(outputs); }
  bool operator==(const Product&) const = default;
};

// Appends the products of the model's Linear layers. `rows` returns the number of rows of a layer
// by name; a layer with 0 rows is left out.
void add_linears(const torch::nn::Module& model,
                 const std::function<int64_t(const std::string& name)>& rows,
                 std::vector<Product>& products);

struct ProductFloor {
  double ms = 0, gflop = 0;
};

// Times the products in the network's order, each with separate weights, and adds the times. The
// time of a product is the median of `repeat` passes by at::mm or at::linear (at::conv2d for
// convolutions), whichever is faster. The precision is fp32, bf16, or int8 by at::_int_mm with
// convolutions in bf16. ms is 0 if torch does not have the product. A part of the rows of a large
// product is timed, and the time is scaled.
ProductFloor measure_products(const std::vector<Product>& products, Precision precision,
                              int64_t repeat, torch::Device device = torch::kCPU);

// Milliseconds of one read of `bytes` >= 8 bytes on all threads of torch: the best of several,
// because disturbances only add time.
double memory_read_ms(int64_t bytes);

// Milliseconds of one read of `bytes` bytes on a GPU: half the time of a copy of uncached memory.
double memory_read_ms(int64_t bytes, c10::Device device);

}  // namespace tost
