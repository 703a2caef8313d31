// Numbers of a report as JSON, and the selection of its layers and heads, counted from 1.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/torch.h"

namespace tost {

// null for values that are not finite.
nlohmann::json number_or_null(double value);

// Nested arrays of a tensor's shape with every number as `written` gives it; an undefined tensor is
// null.
nlohmann::json nested(const torch::Tensor& tensor, function_ref<double(double)> written);
// The same with numbers rounded to `decimals`.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

// `wanted` in rising order without repetitions; empty: everything, 1 ... count. Throws a usage
// Error naming the first number outside 1 ... count; `what` is "layer" or "head".
std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what);

// At most `most` numbers of 1 ... count, evenly spaced, with the first and the last (a single one:
// the last).
std::vector<int64_t> spread_numbers(int64_t count, int64_t most);

}  // namespace tost
