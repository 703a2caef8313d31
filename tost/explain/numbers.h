// Writes numbers of a report as JSON, and selects layers and heads of a report, counted from 1.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/function_ref.h"
#include "tost/torch.h"

namespace tost {

// The number as JSON, or null if it is not finite.
nlohmann::json number_or_null(double value);

// Nested arrays with a tensor's shape, of written(number); null for an undefined tensor.
nlohmann::json nested(const torch::Tensor& tensor, function_ref<double(double)> written);
// Nested arrays with numbers rounded to `decimals` digits.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

// Returns `wanted` in rising order without repetitions; 1 ... count if `wanted` is empty. Throws a
// usage Error naming the first number outside 1 ... count; `what` is "layer" or "head".
std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what);

// At most `most` evenly spaced numbers of 1 ... count, with the first and the last; only the last
// if `most` is 1.
std::vector<int64_t> spread_numbers(int64_t count, int64_t most);

}  // namespace tost
