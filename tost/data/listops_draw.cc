// Drawing ListOps expressions and writing them as text.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/data/listops.h"

namespace tost {
namespace {

struct Drawing {
  const ListOpsRules& rules;
  Random& random;
  std::string code;

  // False once the expression cannot come out short enough.
  bool node(int64_t level) {
    if (static_cast<int64_t>(code.size()) >= rules.max_tokens) return false;
    if (level >= rules.max_depth || !random.chance(rules.operator_share)) {
      code.push_back(static_cast<char>(random.below(10)));
      return true;
    }
    const int64_t arguments = 2 + random.below(rules.max_arguments - 1);
    code.push_back(static_cast<char>(kListOpsMin + random.below(4)));
    for (int64_t k = 0; k < arguments; ++k) {
      if (!node(level + 1)) return false;
    }
    code.push_back(kListOpsClose);
    return true;
  }
};

// Tokens of the largest expression that the rules allow, at most `enough`.
int64_t largest(const ListOpsRules& rules, int64_t enough) {
  int64_t tokens = 1;
  for (int64_t level = 1; level < rules.max_depth && tokens < enough; ++level) {
    tokens = 2 + rules.max_arguments * tokens;
  }
  return std::min(tokens, enough);
}

// Of every operator, in the order they open.
std::vector<int64_t> count_arguments(std::string_view code) {
  std::vector<int64_t> counts;
  std::vector<size_t> open;
  for (char token : code) {
    if (token == kListOpsClose) open.pop_back();
    if (token < kListOpsMin || token == kListOpsClose) {
      if (!open.empty()) ++counts[open.back()];
    } else {
      open.push_back(counts.size());
      counts.push_back(0);
    }
  }
  return counts;
}

}  // namespace

void check_listops_rules(const ListOpsRules& rules) {
  constexpr int64_t kMost = 1'000'000;
  if (rules.max_depth < 1 || rules.max_depth > 100) {
    fail_usage("The depth of ListOps is 1 to 100 levels, not ", rules.max_depth, ".");
  }
  if (rules.max_arguments < 2 || rules.max_arguments > 1'000) {
    fail_usage("Operators of ListOps have 2 to 1,000 arguments at most, not ", rules.max_arguments,
               ".");
  }
  if (rules.min_tokens < 0 || rules.max_tokens > kMost ||
      rules.max_tokens - 1 <= rules.min_tokens) {
    fail_usage("Lengths of ListOps lie strictly between two bounds of 0 to 1,000,000 tokens that ",
               "leave room, not between ", rules.min_tokens, " and ", rules.max_tokens, ".");
  }
  if (largest(rules, kMost) <= rules.min_tokens) {
    fail_usage("ListOps of ", rules.max_depth, " levels with ", rules.max_arguments,
               " arguments has at most ", largest(rules, kMost), " tokens, too few for more than ",
               rules.min_tokens, ".");
  }
}

std::string draw_listops(const ListOpsRules& rules, Random& random) {
  constexpr int64_t kMostTokens = 100'000'000;  // some seconds; the defaults need about 10,000
  Drawing drawing{rules, random, {}};
  for (int64_t drawn = 0; drawn < kMostTokens;) {
    drawing.code.clear();
    const bool fits = drawing.node(1);
    const auto tokens = static_cast<int64_t>(drawing.code.size());
    if (fits && tokens > rules.min_tokens && tokens < rules.max_tokens) return drawing.code;
    drawn += tokens;
  }
  fail_usage("Drawing ", kMostTokens, " tokens of ListOps gave no expression of between ",
             rules.min_tokens, " and ", rules.max_tokens,
             " tokens; allow other lengths, more depth or more arguments.");
}

std::string listops_text(std::string_view code) {
  std::vector<int64_t> arguments = count_arguments(code);
  std::string text;
  size_t next_operator = 0;
  const auto add = [&](std::string_view token) {
    if (!text.empty()) text.push_back(' ');
    text.append(token);
  };
  std::vector<char> open;
  for (char token : code) {
    const std::string& symbol = listops_symbols()[static_cast<size_t>(token)];
    if (token >= kListOpsMin && token < kListOpsClose) {
      for (int64_t k = 0; k <= arguments[next_operator]; ++k) add("(");
      ++next_operator;
      add(symbol);
      open.push_back(token);
      continue;
    }
    add(symbol);
    if (token == kListOpsClose) {
      open.pop_back();
      add(")");
    }
    if (!open.empty()) add(")");
  }
  return text;
}

}  // namespace tost
