// A model to measure: a preset or a file, run on random inputs by plain modules or the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tost/engine/array.h"
#include "tost/engine/precision.h"

namespace tost {

// The work of one repetition of a measurement.
//   forward  pictures or sequences to logits
//   prefill  a text of `size` tokens to the logits of the next one
//   decode   `steps` single tokens after a text of `size` tokens, to the logits after the last
struct BenchTask {
  std::string test = "forward";
  int64_t batch = 1;
  int64_t size = 0;            // side of a picture, or tokens
  int64_t steps = 1;           // of decode; 1 of others
  std::string device = "cpu";  // of BenchBackend::device
};

// The caller calls prepare() before each timed run(), which returns the logits [batch, ...].
struct BenchRunner {
  std::function<void()> prepare = [] {};
  std::function<Array()> run;
  int64_t weight_bytes = 0;  // that run() reads at least once (in decode: each step)
};

// A product of x [rows, inputs] and a weight [outputs, inputs]. A convolution counts as a product
// with a row for every output pixel.
struct Product {
  int64_t rows = 0, inputs = 0, outputs = 0;
  // The stride, 1 or 2, of a convolution with a 3x3 window; 0 for other products.
  int64_t batch = 0, channels = 0, height = 0, width = 0, stride = 0;

  double gflop() const { return 2e-9 * double(rows) * double(inputs) * double(outputs); }
  bool operator==(const Product&) const = default;
};

struct ProductFloor {
  double ms = 0, gflop = 0;
};

struct BenchFacts {
  const char *kind, *unit;  // vision, language, sequence; images, tokens, sequences
  std::string mixer;
  int64_t default_size = 0;
  std::vector<std::string> tests{"forward"};
};

class BenchModel {
 public:
  explicit BenchModel(BenchFacts facts) : facts(std::move(facts)) {}
  virtual ~BenchModel() = default;

  const BenchFacts facts;
  // Draws a random input; equal tasks get equal inputs.
  virtual Array draw_input(const BenchTask& task) const = 0;
  // Throws a usage Error if this model does not have the precision or the engine. Must be the last
  // call on this object, because the runner takes parts of the model and may free the rest.
  virtual BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                                  bool engine) = 0;
  virtual std::vector<Product> products(const BenchTask&) const { return {}; }
  // Saves the weights as a model file. Throws a usage Error for kinds without model files.
  virtual void save(const std::string& file) const;
};

struct BenchModelSource {
  std::string name;     // a preset, or a path as eval and predict take it
  std::string mixer;    // instead of the preset's; "": the preset's
  int64_t longest = 0;  // tokens that a language model will read; beyond its learned positions it
                        // is measured without them
};

// The largest deviation relative to the largest value of `wanted`; infinity if the shapes differ or
// a value is not finite. Both are float32.
double relative_error(const Array& found, const Array& wanted);

// Draws ids [batch, tokens] in [first, past), the same for equal tasks.
Array random_ids(const BenchTask& task, int64_t tokens, int64_t first, int64_t past);

[[noreturn]] void fail_precision(const char* kind, bool engine, Precision precision);

}  // namespace tost
