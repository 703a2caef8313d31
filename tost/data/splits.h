// The names of the parts of a data set.
#pragma once

#include <string>
#include <vector>

namespace tost {

inline const std::vector<std::string> kSplits = {"train", "validation", "test"};

}  // namespace tost
