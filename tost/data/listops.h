// ListOps (Nangia and Bowman, 2018; arXiv 1804.06028) with the vocabulary of the Long Range Arena
// (arXiv 2011.04006): nested operators on digits, the value as the class. Free of torch.
//
// An expression is a digit, or an operator, its arguments and a closing bracket. Its code is one
// char a token: 0 ... 9 the digits, 10 ... 13 the operators, 14 the bracket; the token of a data
// set is the code + 1. The parentheses of the files mark the binary tree and are not tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/random.h"

namespace tost {

enum ListOpsCode : char { kListOpsMin = 10, kListOpsMax, kListOpsMed, kListOpsSum, kListOpsClose };
inline constexpr int64_t kListOpsVocab = 16;  // 15 codes and padding

// "0" ... "9", "[MIN", "[MAX", "[MED", "[SM", "]".
const std::vector<std::string>& listops_symbols();

// The code of an expression as the files write it, parentheses or none, with spaces, tabs or ends
// of lines between the tokens. `error` receives what is
// wrong (an unknown token, brackets that do not match, nothing at all), as the end of a sentence
// that begins with the place; "" if nothing is. Parentheses must match each other.
std::string parse_listops(std::string_view text, std::string& error);

// The value of a well-formed code, 0 ... 9. MED of an even count is the mean of the middle two,
// truncated; SM the sum modulo 10.
int listops_value(std::string_view code);

// Operators that enclose each other at most, 0 for a digit.
int64_t listops_depth(std::string_view code);

// As the official generators write it: every token but the closing brackets' parentheses, the
// binary tree marked by parentheses.
std::string listops_text(std::string_view code);

// Rules of the generated expressions, with the defaults of the Long Range Arena.
struct ListOpsRules {
  int64_t max_depth = 10;      // levels of the tree, digits included
  int64_t max_arguments = 10;  // 2 to this many, each as likely
  int64_t min_tokens = 500;    // both bounds exclusive
  int64_t max_tokens = 2'000;
  double operator_share = 0.25;  // of the nodes above the last level; the others are digits
};

// Throws a usage Error for rules that no expression can meet.
void check_listops_rules(const ListOpsRules& rules);

// Expressions are drawn until one has a length within the bounds, as in the official generator.
std::string draw_listops(const ListOpsRules& rules, Random& random);

}  // namespace tost
