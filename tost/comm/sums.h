// Sums counts, and tensors with gradients, over processes that divide the tokens of sequences. With
// a null group there is one process, and a sum is its summand.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/comm/group.h"
#include "tost/ops/token_sums.h"

namespace tost {

// Replaces each number, and each count below 2^53, by its sum over the processes. Returns false if
// a process was stopped; the numbers then have no meaning.
bool add_up(Group* group, const std::vector<double*>& numbers, const std::vector<int64_t*>& counts,
            bool stopped);
void add_up(Group* group, std::vector<int64_t>& counts);

// Sums over the processes of `group`, which must outlive all tensors computed with them. All
// processes must use the sums together, in backward, too.
TokenSums token_sums(Group& group);

}  // namespace tost
