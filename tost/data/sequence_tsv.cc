#include "tost/data/sequence_tsv.h"

#include <algorithm>

#include "tost/base/text.h"

namespace tost {

TsvFile::TsvFile(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)), text_(file_->bytes()) {
  const size_t last = text_.find_last_not_of("\r\n");
  text_ = text_.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (text_.empty()) fail_data("'", path, "' is empty; it needs one sample a line.");
}

TsvRow TsvFile::row_at(size_t begin, int64_t line, size_t& next) const {
  const size_t end = std::min(text_.find('\n', begin), text_.size());
  next = end + 1;
  TsvRow row{path_, line, {}};
  if (end - begin > kMaxLine) {
    row.fail("is longer than ", human_bytes(static_cast<int64_t>(kMaxLine)), ".");
  }
  std::string_view rest = text_.substr(begin, end - begin);
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  if (rest.empty()) row.fail("is empty.");
  for (;;) {
    const size_t tab = rest.find('\t');
    row.columns.push_back(rest.substr(0, tab));
    if (tab == std::string_view::npos) return row;
    rest.remove_prefix(tab + 1);
  }
}

void TsvFile::each(function_ref<void(const TsvRow&)> visit) const {
  int64_t line = 1;
  for (size_t begin = 0; begin < text_.size(); ++line) visit(row_at(begin, line, begin));
}

TsvRow TsvFile::first() const {
  size_t next = 0;
  return row_at(0, 1, next);
}

}  // namespace tost
