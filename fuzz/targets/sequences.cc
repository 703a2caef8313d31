// Labelled sequences: tables of ListOps and of texts.
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/data/listops.h"
#include "tost/data/sequence_text.h"

namespace tost::fuzz {
namespace {

void check_rows(const SequenceRows& rows, bool pairs) {
  require(!rows.labels.empty(), "a sample");
  require(rows.texts.size() == rows.labels.size() * (pairs ? 2 : 1), "a label a sample");
  for (const int32_t label : rows.labels) {
    require(label >= 0 && static_cast<size_t>(label) < rows.classes.size(), "labels are classes");
  }
  for (const std::string_view text : rows.texts) require(!text.empty(), "no empty text");
}

void try_expression(std::string_view text) {
  std::string error;
  const std::string code = parse_listops(text, error);
  if (!error.empty()) return;
  const int value = listops_value(code);
  require(value >= 0 && value <= 9, "a digit");
  require(parse_listops(listops_text(code), error) == code, "written and read again the same");
}

void try_table(std::string_view input, bool pairs) {
  const MemoryFile file(input);
  check_rows(read_text_table(file.path(), table_classes(file.path(), pairs), pairs), pairs);
}

}  // namespace

void try_sequences(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] {
    switch (choice % 5) {
      case 0:
        return check_rows(read_listops(MemoryFile(input).path()), false);
      case 1:
        return try_table(input, false);
      case 2:
        return try_table(input, true);
      default:
        return try_expression(input);
    }
  });
}

}  // namespace tost::fuzz
