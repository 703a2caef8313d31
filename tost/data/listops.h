// ListOps (arXiv 1804.06028): nested operators on digits, whose class is their value. The
// vocabulary is that of the Long Range Arena (arXiv 2011.04006). Free of torch.
//
// An expression is a digit, or an operator, its arguments and a closing bracket. The code of an
// expression has a char for each token: 0 ... 9 for digits, 10 ... 13 for operators, 14 for the
// bracket. A data set's token is the code + 1. Parentheses in files mark the binary tree and are
// not tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/parallel.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

enum ListOpsCode : char { kListOpsMin = 10, kListOpsMax, kListOpsMed, kListOpsSum, kListOpsClose };
inline constexpr int64_t kListOpsVocab = 16;  // 15 codes and padding

// Parses an expression from a file, with or without parentheses; spaces, tabs or line ends separate
// tokens. Sets `error` to "", or to the end of a sentence about an unknown token, unmatched
// brackets or an empty text.
std::string parse_listops(std::string_view text, std::string& error);

// The value of a well-formed code, 0 ... 9. MED of an even number of arguments is the mean of the
// middle two, truncated; SM is the sum modulo 10.
int listops_value(std::string_view code);

// Writes an expression as the official generators do, with the binary tree marked by parentheses.
std::string listops_text(std::string_view code);

// The rules of generated expressions, by default those of the Long Range Arena.
struct ListOpsRules {
  int64_t max_depth = 10;      // levels of the tree, digits included
  int64_t max_arguments = 10;  // 2 to this many, each as likely
  int64_t min_tokens = 500;    // both bounds exclusive
  int64_t max_tokens = 2'000;
  double operator_share = 0.25;  // of the nodes above the last level; the others are digits
};

// Throws a usage Error for rules that no expression satisfies.
void check_listops_rules(const ListOpsRules& rules);

inline ListOpsRules listops_rules(const SequenceSpec& spec) {
  return {spec.max_depth, spec.max_arguments, spec.min_tokens, spec.max_tokens};
}
inline int64_t generated_size(const SequenceSpec& spec, const std::string& split) {
  return split == "train" ? spec.train_size : spec.test_size;
}

// Expression i of a generated split, a function of the arguments. Draws expressions until one has a
// length within the bounds, as the official generator does.
std::string listops_sample(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                           int64_t i);

// Generates `size` expressions; number i is a function of (rules, seed, split, i). Does not remove
// repeated expressions within or between splits; with more than 500 tokens there are none. Throws a
// usage Error for impossible rules.
SequenceRows generated_listops(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                               int64_t size, ParallelFor parallel);

// Reads a TSV with the header Source, Target and the expression first (Long Range Arena), or
// without a header and the label first (original release). Throws a data Error naming a malformed
// line, or a line whose label is not the expression's value.
SequenceRows read_listops(const std::string& path);

// Whether `columns` are those of the first line of a file of ListOps.
bool looks_like_listops(const std::vector<std::string_view>& columns);

}  // namespace tost
