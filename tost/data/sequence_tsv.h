// Tables of tab-separated columns, one sample a line; lines end in LF or CR LF. Free of torch.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/function_ref.h"
#include "tost/io/mapped_file.h"

namespace tost {

struct TsvRow {
  const std::string& path;
  int64_t line;  // from 1
  std::vector<std::string_view> columns;

  // "Line 7 of 'x.tsv' ..." as a data Error.
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_data("Line ", line, " of '", path, "' ", parts...);
  }
};

class TsvFile {
 public:
  static constexpr size_t kMaxLine = size_t{16} << 20;  // bytes

  // Throws a data Error where the file is missing or empty.
  explicit TsvFile(const std::string& path);

  const std::string& path() const { return path_; }
  // Every line in order. Throws a data Error for a line that is empty or longer than kMaxLine.
  void each(function_ref<void(const TsvRow&)> row) const;
  TsvRow first() const;
  // Keeps the memory that columns point into.
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  TsvRow row_at(size_t begin, int64_t line, size_t& next) const;
  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::string_view text_;
};

}  // namespace tost
