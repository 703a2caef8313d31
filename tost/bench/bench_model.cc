#include "tost/bench/bench_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

void show_every_layer(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (ends_with(name, "gamma1") || ends_with(name, "gamma2")) item.value().fill_(1);
    if (ends_with(name, ".bias")) item.value().normal_(0, 0.02);
  }
}

double relative_error(const torch::Tensor& found, const torch::Tensor& wanted) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (found.sizes() != wanted.sizes()) return kNone;
  const auto a = found.to(torch::kDouble), b = wanted.to(torch::kDouble);
  const double largest = b.abs().max().item<double>(), off = (a - b).abs().max().item<double>();
  if (!std::isfinite(off)) return kNone;
  return largest > 0 ? off / largest : off;
}

uint64_t input_seed(const BenchTask& task) {
  return uint64_t(task.batch) * 1'000'003 + uint64_t(task.size);
}

void check_range(const char* flag, const std::vector<int64_t>& values, int64_t most) {
  for (const int64_t value : values) {
    if (value < 1 || value > most)
      fail_usage(flag, " is ", value, "; it must be from 1 to ", most, ".");
  }
}

void check_names(const char* flag, const std::vector<std::string>& found,
                 const std::vector<std::string>& known) {
  for (const auto& name : found) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    fail_usage(flag, " '", name, "' is none of ", join(known, ", "), ".",
               did_you_mean(name, known));
  }
}

Precisions precisions_named(const char* flag, const std::vector<std::string>& names) {
  check_names(flag, names, names_of(all_precisions()));
  Precisions found;
  for (const auto& name : names) found.push_back(precision_from_name(name));
  return found;
}

void fail_precision(const char* kind, bool engine, Precision precision) {
  fail_usage(precision, engine ? " is not a precision of the " : " needs the engine for ", kind,
             engine ? " engine." : " models.");
}

}  // namespace tost
