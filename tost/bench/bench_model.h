// A model to measure: a preset or a file, run on random inputs by plain modules or the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tost/bench/product_floor.h"
#include "tost/nn/precision.h"
#include "tost/torch.h"

namespace tost {

// The work of one repetition of a measurement.
//   forward  pictures or sequences to logits
//   prefill  a text of `size` tokens to the logits of the next one
//   decode   `steps` single tokens after a text of `size` tokens, to the logits after the last
struct BenchTask {
  std::string test = "forward";
  int64_t batch = 1;
  int64_t size = 0;   // side of a picture, or tokens
  int64_t steps = 1;  // of decode
  torch::Device device = torch::kCPU;
};

// The caller calls prepare() before each timed run(), which returns the logits [batch, ...].
struct BenchRunner {
  std::function<void()> prepare = [] {};
  std::function<torch::Tensor()> run;
  int64_t weight_bytes = 0;  // that run() reads at least once (in decode: each step)
};

class BenchModel {
 public:
  virtual ~BenchModel() = default;

  virtual const char* kind() const = 0;  // vision, language, sequence
  virtual const char* unit() const = 0;  // of its rate: "images", "tokens", "sequences"
  virtual std::string mixer() const = 0;
  virtual std::vector<std::string> tests() const = 0;
  virtual int64_t default_size() const = 0;
  // Draws a random input; equal tasks get equal inputs.
  virtual torch::Tensor draw_input(const BenchTask& task) const = 0;
  // Throws a usage Error if this model does not have the precision or the engine. Must be the last
  // call on this object, because the runner takes parts of the model and may free the rest.
  virtual BenchRunner make_runner(const BenchTask& task, const torch::Tensor& input,
                                  Precision precision, bool engine) = 0;
  virtual std::vector<Product> products(const BenchTask& task) const = 0;
  // Saves the weights as a model file. Throws a usage Error for kinds without model files.
  virtual void save(const std::string& file) const = 0;
};

struct BenchModelSource {
  std::string name;     // a preset, or a path as eval and predict take it
  std::string mixer;    // instead of the preset's; "": the preset's
  int64_t longest = 0;  // tokens that a language model will read; beyond its learned positions it
                        // is measured without them
};

// Sets every LayerScale to 1, and draws every bias by torch's generator with deviation 0.02.
void show_every_layer(torch::nn::Module& module);

// The largest deviation relative to the largest value of `wanted`; infinity if the shapes differ or
// a value is not finite.
double relative_error(const torch::Tensor& found, const torch::Tensor& wanted);

// The seed that draw_input() uses for a task.
uint64_t input_seed(const BenchTask& task);

// Throw a usage Error that names the flag, if a value is not in 1 to `most` or a name is unknown.
void check_range(const char* flag, const std::vector<int64_t>& values, int64_t most);
void check_names(const char* flag, const std::vector<std::string>& found,
                 const std::vector<std::string>& known);
Precisions precisions_named(const char* flag, const std::vector<std::string>& names);

[[noreturn]] void fail_precision(const char* kind, bool engine, Precision precision);

}  // namespace tost
