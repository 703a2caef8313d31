// Reads texts with classes as bytes: from folders, tables, and tables of pairs. Free of torch.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/function_ref.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

// Tokens of codes of bytes or symbols: each code + 1, because token 0 is padding.
std::vector<int32_t> tokens_of_codes(std::string_view codes);

// A line of a table with tab-separated columns, which is one sample. Lines end in LF or CR LF.
struct TsvRow {
  const std::string& path;
  int64_t line;  // from 1
  std::vector<std::string_view> columns;

  // Throws "Line 7 of 'x.tsv' ..." as a data Error.
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_data("Line ", line, " of '", path, "' ", parts...);
  }
};

class TsvFile {
 public:
  static constexpr size_t kMaxLine = size_t{16} << 20;  // bytes

  // Maps a table. Throws a data Error if the file is missing or empty.
  explicit TsvFile(const std::string& path);

  // Calls `row` with every line in order. Throws a data Error for a line that is empty or longer
  // than kMaxLine.
  void each(function_ref<void(const TsvRow&)> row) const;
  TsvRow first() const;
  // The mapped file, into which columns point.
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  TsvRow row_at(size_t begin, int64_t line, size_t& next) const;
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view text_;
};

// Reads at most `max_length` bytes (0: all) of each text in `directory`, which has a folder for
// each class. `classes` are those of the training split; if empty, the folders of `directory`.
// Throws a data Error naming an empty text, a class without texts, or a class that training lacks.
SequenceRows read_text_folders(const std::string& directory,
                               const std::vector<std::string>& classes, int64_t max_length);

// The class folders of `directory`, without "unsup" (IMDB), in order of their names.
std::vector<std::string> text_classes(const std::string& directory);

// The classes of a table with lines label<TAB>text, or label<TAB>id<TAB>id<TAB>text<TAB>text for
// `pairs`. The order is numeric if all are integers ("1.0" counts as 1), else by name.
std::vector<std::string> table_classes(const std::string& path, bool pairs);

// Reads such a table. Throws a data Error naming a line with a missing column, an empty text or a
// label that is not in `classes`.
SequenceRows read_text_table(const std::string& path, const std::vector<std::string>& classes,
                             bool pairs);

}  // namespace tost
