// The kinds of model behind open_bench_model().
#pragma once

#include <memory>

#include "tost/bench/bench_model.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_vision(const BenchModelSource& source, bool file);
std::unique_ptr<BenchModel> open_bench_language(const BenchModelSource& source, bool file);
std::unique_ptr<BenchModel> open_bench_sequence(const BenchModelSource& source, bool file);

// Every LayerScale becomes 1, every bias normal with deviation 0.02, from torch's generator.
void show_every_layer(torch::nn::Module& module);

// A seed for the input of a task.
uint64_t input_seed(const BenchTask& task);

[[noreturn]] void fail_precision(const char* kind, bool engine, const std::string& precision);

}  // namespace tost
