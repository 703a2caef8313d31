// Sequences whose tokens lie on several processes, a run of them on each.
#pragma once

#include "tost/comm/group.h"
#include "tost/ops/token_sums.h"

namespace tost {

// Sums over the processes of `group`, which outlives what is computed with them. Every use is
// collective, in backward too.
TokenSums token_sums(Group& group);

}  // namespace tost
