// Sets of ListOps expressions: generated ones and the files of both releases. Free of torch.
#pragma once

#include "tost/base/parallel.h"
#include "tost/data/listops.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

// Expression i of a generated split, a pure function of the arguments.
std::string listops_sample(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                           int64_t i);

// `size` expressions, number i a pure function of (rules, seed, split, i). Throws a usage Error for
// impossible rules. Repeats within or between splits are not removed: above 500 tokens there are
// none (docs/long-sequences-data.md).
SequenceRows generated_listops(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                               int64_t size, ParallelFor parallel);

// A TSV, with the header Source, Target and expression first (the Long Range Arena's generator) or
// without a header and label first (the original release). Throws a data Error naming the line for
// anything malformed and for a label that is not the expression's value.
SequenceRows read_listops(const std::string& path);

// Whether the first line of a TSV is that of such a file.
bool looks_like_listops(const std::vector<std::string_view>& columns);

}  // namespace tost
