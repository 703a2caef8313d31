// Counts and sums of several processes. With a null group, which is one process, nothing changes.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/comm/group.h"

namespace tost {

// Replaces each number by its sum over the processes; false where one of them was stopped, whose
// numbers mean nothing.
bool add_up(Group* group, const std::vector<double*>& numbers, bool stopped);
void add_up(Group* group, std::vector<int64_t>& counts);

}  // namespace tost
