// What measurements take from torch, such as the time of matrix products, which bounds a network's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/bench/measure.h"
#include "tost/torch.h"

namespace tost {

// Appends the products of the model's Linear layers. `rows` returns the number of rows of a layer
// by name; a layer with 0 rows is left out.
void add_linears(const torch::nn::Module& model,
                 const std::function<int64_t(const std::string& name)>& rows,
                 std::vector<Product>& products);

// Times the products in the network's order, each with separate weights, and adds the times. The
// time of a product is the median of `repeat` passes by at::mm or at::linear (at::conv2d for
// convolutions), whichever is faster. The precision is fp32, bf16, or int8 by at::_int_mm with
// convolutions in bf16. ms is 0 if torch does not have the product. A part of the rows of a large
// product is timed, and the time is scaled.
ProductFloor measure_products(const std::vector<Product>& products, Precision precision,
                              int64_t repeat, torch::Device device = torch::kCPU);

// Milliseconds of one read of `bytes` bytes on a GPU: half the time of a copy of uncached memory.
double memory_read_ms(int64_t bytes, torch::Device device);

// A clock that waits for the device.
MsClock clock_of(torch::Device device);

// Sets every LayerScale to 1, and draws every bias by torch's generator with deviation 0.02.
void show_every_layer(torch::nn::Module& module);

// A tensor's values on the CPU in float32.
Array floats_of(const torch::Tensor& tensor);

}  // namespace tost
