// What reading long samples, or training on them, takes at the very least.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/kinds/language/answer_eval.h"

namespace tost {
namespace {

constexpr double kFloatBytes = 4;
constexpr double kIdBytes = 16;  // a token and what is asked of it

// In double: a product of hostile sizes must not wrap.
double kept_in_states(const LanguageConfig& c, double tokens) {
  const double window = double(c.options.window);
  const double seen = window > 0 ? std::min(window, tokens) : tokens;
  double numbers = 0;
  for (int64_t i = 0; i < c.depth; ++i) {
    if (mixer_of_block(c, i) == "softmax") numbers += 2 * double(c.dim) * seen;
  }
  return kFloatBytes * numbers;
}

// Of a token, in training: inputs of both norms, outputs of both branches, the mixer's projections,
// and both sides of the activation.
double kept_for_backward(const LanguageConfig& c) {
  const double dim = double(c.dim);
  return kFloatBytes * double(c.depth) * (8 * dim + 2 * c.mlp_ratio * dim);
}

}  // namespace

void check_answer_memory(const LanguageConfig& config, int64_t length, int64_t samples,
                         bool training, int64_t available) {
  const double tokens = double(length), rows = double(samples);
  double needed = rows * tokens * kIdBytes;
  needed +=
      training ? rows * tokens * kept_for_backward(config) : rows * kept_in_states(config, tokens);
  if (available <= 0 || needed <= double(available)) return;
  const std::string bytes = needed < 9e18 ? human_bytes(int64_t(needed)) : "more than 8 EiB";
  fail_usage(training ? "Training on " : "Reading ", samples, " samples of ", human_number(length),
             " tokens at a time takes at least ", bytes, " of memory and the machine has ",
             human_bytes(available), " free; choose shorter lengths",
             training || samples > 1 ? ", a smaller batch" : "", " or a smaller model.");
}

}  // namespace tost
