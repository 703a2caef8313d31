// Which layers and heads a report shows. Both are counted from 1, in flags, pages and JSON alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

// `wanted` in rising order without repetitions; empty: everything, 1 ... count. Throws a usage
// Error naming the first number outside 1 ... count; `what` is "layer" or "head".
std::vector<int64_t> choose_numbers(const std::vector<int64_t>& wanted, int64_t count,
                                    const std::string& what);

// Of 1 ... count at most `most`, evenly spaced, the first and the last among them (one alone: the
// last).
std::vector<int64_t> spread_numbers(int64_t count, int64_t most);

}  // namespace tost
