// Tables of labelled sequences, and the expressions in them.
#include "tost/data/listops.h"

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/data/sequence_tsv.h"

namespace tost::fuzz {
namespace {

void try_expression(std::string_view text) {
  std::string error;
  const std::string code = parse_listops(text, error);
  if (!error.empty()) return;
  const int value = listops_value(code);
  promise(value >= 0 && value <= 9, "a digit");
  promise(listops_depth(code) >= 0, "a depth");
  promise(parse_listops(listops_text(code), error) == code, "written and read again the same");
}

}  // namespace

void try_listops(std::string_view input) {
  const MemoryFile file(input);
  or_refuse([&] {
    const TsvFile table(file.path());
    promise(table.first().line == 1, "lines from 1");
    table.each([&](const TsvRow& row) {
      promise(!row.columns.empty(), "a column");
      for (const std::string_view column : row.columns) try_expression(column);
    });
  });
}

}  // namespace tost::fuzz
