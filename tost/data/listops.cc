#include "tost/data/listops.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/data/sequence_text.h"
#include "tost/io/dataset.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

// The names of tokens, by code.
const std::vector<std::string>& listops_symbols() {
  static const std::vector<std::string> symbols = {
      "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"};
  return symbols;
}

// The code of a token; -1 if the text is no token.
int code_of(std::string_view token) {
  if (token.size() == 1 && token[0] >= '0' && token[0] <= '9') return token[0] - '0';
  const auto& symbols = listops_symbols();
  for (size_t k = 10; k < symbols.size(); ++k) {
    if (token == symbols[k]) return static_cast<int>(k);
  }
  return -1;
}

int median(std::vector<char>& values, size_t first) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, values.end());
  const size_t count = values.size() - first;
  const int upper = values[first + count / 2];
  return count % 2 == 1 ? upper : (values[first + count / 2 - 1] + upper) / 2;
}

int apply(char operation, std::vector<char>& values, size_t first) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  if (operation == kListOpsMin) return *std::min_element(begin, values.end());
  if (operation == kListOpsMax) return *std::max_element(begin, values.end());
  if (operation == kListOpsMed) return median(values, first);
  int64_t sum = 0;
  for (auto it = begin; it != values.end(); ++it) sum += *it;
  return static_cast<int>(sum % 10);
}

// Checks the tokens of one expression in order, and reports errors.
struct Grammar {
  std::vector<int64_t> arguments;  // of every open operator
  int64_t parentheses = 0;
  bool complete = false;

  // The error, or nullptr.
  const char* take(int code) {
    if (complete) return "continues after a complete expression";
    if (code < 10) {
      finish_one();
    } else if (code == kListOpsClose) {
      if (arguments.empty()) return "closes a bracket that was not opened";
      if (arguments.back() == 0) return "has an operator without arguments";
      arguments.pop_back();
      finish_one();
    } else {
      arguments.push_back(0);
    }
    return nullptr;
  }

  void finish_one() {
    complete = arguments.empty();
    if (!complete) ++arguments.back();
  }

  std::string end() const {
    if (!arguments.empty()) return cat("leaves ", arguments.size(), " brackets open");
    if (!complete) return "has an empty expression";
    if (parentheses != 0) return cat("leaves ", parentheses, " parentheses open");
    return "";
  }
};

}  // namespace

std::string parse_listops(std::string_view text, std::string& error) {
  std::string code;
  Grammar grammar;
  error.clear();
  for (size_t at = 0, end = 0; at < text.size() && error.empty(); at = end + 1) {
    end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    const std::string_view token = text.substr(at, end - at);
    if (token.empty()) continue;
    if (token == "(") {
      ++grammar.parentheses;
    } else if (token == ")") {
      if (--grammar.parentheses < 0) error = "closes a parenthesis that was not opened";
    } else if (const int value = code_of(token); value < 0) {
      error = cat("has the unknown token ", shown(token, 40), "; known are 0 to 9, [MIN, [MAX, ",
                  "[MED, [SM, ], ( and )");
    } else {
      if (const char* wrong = grammar.take(value)) error = wrong;
      code.push_back(static_cast<char>(value));
    }
  }
  if (error.empty()) error = grammar.end();
  return code;
}

int listops_value(std::string_view code) {
  std::vector<char> values;
  std::vector<std::pair<char, size_t>> open;  // the operator and where its arguments begin
  for (char token : code) {
    if (token < 10) {
      values.push_back(token);
    } else if (token != kListOpsClose) {
      open.emplace_back(token, values.size());
    } else {
      const auto [operation, first] = open.back();
      open.pop_back();
      const int value = apply(operation, values, first);
      values.resize(first);
      values.push_back(static_cast<char>(value));
    }
  }
  return values.front();
}

// Draws ListOps expressions and writes them as text.
namespace {

struct Drawing {
  const ListOpsRules& rules;
  Random& random;
  std::string code;

  // Draws a node; returns false if the expression would be too long.
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

// The number of tokens of the largest expression that the rules allow, at most `enough`.
int64_t largest(const ListOpsRules& rules, int64_t enough) {
  int64_t tokens = 1;
  for (int64_t level = 1; level < rules.max_depth && tokens < enough; ++level) {
    tokens = 2 + rules.max_arguments * tokens;
  }
  return std::min(tokens, enough);
}

// The number of arguments of every operator, in the order of the operators.
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

std::string listops_sample(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                           int64_t i) {
  Random random(seed, split_stream(split), static_cast<uint64_t>(i));
  constexpr int64_t kMaxTokens = 100'000'000;  // some seconds; the defaults need about 10,000
  Drawing drawing{rules, random, {}};
  for (int64_t drawn = 0; drawn < kMaxTokens;) {
    drawing.code.clear();
    const bool fits = drawing.node(1);
    const auto tokens = static_cast<int64_t>(drawing.code.size());
    if (fits && tokens > rules.min_tokens && tokens < rules.max_tokens) return drawing.code;
    drawn += tokens;
  }
  fail_usage("Drawing ", kMaxTokens, " tokens of ListOps gave no expression of between ",
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

namespace {

using Codes = std::vector<std::string>;

SequenceRows rows_of(std::shared_ptr<Codes> codes) {
  SequenceRows rows;
  rows.format = "listops";
  rows.coding = {"listops", kListOpsVocab, false};
  rows.classes.assign(listops_symbols().begin(), listops_symbols().begin() + 10);
  rows.texts.assign(codes->begin(), codes->end());
  for (const std::string& code : *codes) rows.labels.push_back(listops_value(code));
  rows.owner = std::move(codes);
  return rows;
}

bool is_header(const std::vector<std::string_view>& columns) {
  return columns.size() == 2 && columns[0] == "Source" && columns[1] == "Target";
}

bool is_half_header(const std::vector<std::string_view>& columns) {
  return columns.size() == 1 && columns[0] == "Source";
}

bool is_digit(std::string_view text) {
  return text.size() == 1 && text[0] >= '0' && text[0] <= '9';
}

std::string parse_row(const TsvRow& row, bool label_first) {
  if (row.columns.size() != 2) {
    row.fail("has ", row.columns.size(), " columns; ListOps has two, ",
             label_first ? "the label and the expression." : "the expression and the label.");
  }
  const std::string_view label = row.columns[label_first ? 0 : 1];
  if (!is_digit(label)) row.fail("has the label ", shown(label, 40), "; labels are 0 to 9.");
  std::string error;
  std::string code = parse_listops(row.columns[label_first ? 1 : 0], error);
  if (!error.empty()) row.fail(error, ".");
  if (const int value = listops_value(code); value != label[0] - '0') {
    row.fail("has the label ", label, ", but its expression is ", value, ".");
  }
  return code;
}

}  // namespace

SequenceRows generated_listops(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                               int64_t size, ParallelFor parallel) {
  check_listops_rules(rules);
  auto codes = std::make_shared<Codes>(static_cast<size_t>(size));
  parallel(size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      (*codes)[static_cast<size_t>(i)] = listops_sample(rules, seed, split, i);
    }
  });
  SequenceRows rows = rows_of(std::move(codes));
  rows.name = [split](int64_t i) { return cat("listops/", split, "/", i); };
  return rows;
}

SequenceRows read_listops(const std::string& path) {
  const TsvFile file(path);
  const std::vector<std::string_view> first = file.first().columns;
  if (is_half_header(first)) {
    fail_data("The header of '", path, "' is Source alone; the column Target (0 to 9) is missing.");
  }
  const bool header = is_header(first);
  const bool label_first = !header && is_digit(first[0]);
  auto codes = std::make_shared<Codes>();
  file.each([&](const TsvRow& row) {
    if (header && row.line == 1) return;
    codes->push_back(parse_row(row, label_first));
  });
  if (codes->empty()) fail_data("'", path, "' has a header and no samples.");
  SequenceRows rows = rows_of(std::move(codes));
  rows.name = [path, skipped = header ? 2 : 1](int64_t i) { return cat(path, ":", i + skipped); };
  return rows;
}

bool looks_like_listops(const std::vector<std::string_view>& columns) {
  if (is_header(columns) || is_half_header(columns)) return true;
  if (columns.size() != 2) return false;
  std::string error;
  parse_listops(columns[is_digit(columns[0]) ? 1 : 0], error);
  return error.empty() && (is_digit(columns[0]) || is_digit(columns[1]));
}

}  // namespace tost
