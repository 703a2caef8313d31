// Lists of recall cases as they are written in settings and flags.
#pragma once

#include "tost/data/recall_data.h"

namespace tost {

// "64, 128" or "1k,16k" (k: 1,024) → whole numbers of at least 1. Throws a usage Error naming
// `what` for anything else and for an empty list.
std::vector<int64_t> parse_counts(const std::string& text, const std::string& what);
// "0, 0.5, 1" → numbers from 0 to 1.
std::vector<double> parse_shares(const std::string& text, const std::string& what);

// lengths "64,128" and pairs "4,8" → two cases; one value goes with all of the other list. Throws a
// usage Error for lists of different lengths.
std::vector<RecallCase> parse_recall_cases(const std::string& lengths, const std::string& pairs);

// Every length at every depth, depth by depth; random depths where there are none.
std::vector<RecallCase> parse_needle_cases(const std::string& lengths, const std::string& depths);

}  // namespace tost
