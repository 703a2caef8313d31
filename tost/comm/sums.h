// Sums over processes: of counts, and of tensors with gradients, for sequences whose tokens are
// split among processes, a contiguous part on each. A null group is one process, and nothing
// changes.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/comm/group.h"
#include "tost/ops/token_sums.h"

namespace tost {

// Replaces each number by its sum over the processes; false if one of them was stopped, and then
// the numbers have no meaning.
bool add_up(Group* group, const std::vector<double*>& numbers, bool stopped);
void add_up(Group* group, std::vector<int64_t>& counts);

// Sums over the processes of `group`, which must outlive all tensors computed with them. Every use
// is collective, in backward too.
TokenSums token_sums(Group& group);

}  // namespace tost
