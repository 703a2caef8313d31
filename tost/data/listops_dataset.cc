#include "tost/data/listops_dataset.h"

#include <algorithm>

#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/sequence_text.h"
#include "tost/io/safe_text.h"

namespace tost {
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

std::string listops_sample(const ListOpsRules& rules, uint64_t seed, const std::string& split,
                           int64_t i) {
  Random random(seed, split_stream(split), static_cast<uint64_t>(i));
  return draw_listops(rules, random);
}

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
