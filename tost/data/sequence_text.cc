#include "tost/data/sequence_text.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/io/folder_dataset.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSequenceText = int64_t{16} << 20;  // bytes a file
constexpr size_t kMaxClasses = 10'000;

std::vector<std::string> text_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : folder_entries(folder)) {
    if (entry.file && !is_system_file(entry.path)) names.push_back(entry.path.filename().string());
  }
  return names;
}

// Removes ".0" of a label, because the released pairs write 1 as "1.0".
std::string_view plain_label(std::string_view label) {
  return label.ends_with(".0") ? label.substr(0, label.size() - 2) : label;
}

bool is_table_header(const TsvRow& row) {
  return row.line == 1 && to_lower(row.columns[0]) == "label";
}

bool is_count(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void check_columns(const TsvRow& row, bool pairs) {
  const size_t wanted = pairs ? 5 : 2;
  if (row.columns.size() == wanted) return;
  row.fail("has ", row.columns.size(), " columns; ",
           pairs ? "pairs have five: label, id, id, text, text." : "texts have two: label, text.");
}

}  // namespace

std::vector<int32_t> tokens_of_codes(std::string_view codes) {
  std::vector<int32_t> tokens(codes.size());
  std::transform(codes.begin(), codes.end(), tokens.begin(),
                 [](char c) { return int32_t{static_cast<uint8_t>(c)} + 1; });
  return tokens;
}

std::vector<std::string> text_classes(const std::string& directory) {
  std::vector<std::string> folders = class_folders(directory);
  std::erase(folders, "unsup");
  return folders;
}

SequenceRows read_text_folders(const std::string& directory,
                               const std::vector<std::string>& classes, int64_t max_length) {
  SequenceRows rows;
  rows.format = "text";
  rows.coding = {"bytes", 257, false};
  const std::vector<std::string> folders = text_classes(directory);
  rows.classes = classes.empty() ? folders : classes;
  auto texts = std::make_shared<std::vector<std::string>>();
  auto names = std::make_shared<std::vector<std::string>>();
  for (const std::string& folder : folders) {
    const auto place = std::find(rows.classes.begin(), rows.classes.end(), folder);
    if (place == rows.classes.end()) {
      fail_data("'", directory, "' has a class folder '", folder,
                "' that the training split does not have.", did_you_mean(folder, rows.classes));
    }
    const fs::path inside = fs::path(directory) / folder;
    const std::vector<std::string> files = text_files(inside);
    if (files.empty()) fail_data("The class folder '", inside.string(), "' holds no texts.");
    for (const std::string& file : files) {
      std::string text = read_file(inside / file, kMaxSequenceText);
      if (text.empty()) fail_data("The text '", (inside / file).string(), "' is empty.");
      if (max_length > 0 && static_cast<int64_t>(text.size()) > max_length) {
        text.resize(static_cast<size_t>(max_length));
        text.shrink_to_fit();
      }
      texts->push_back(std::move(text));
      names->push_back((fs::path(folder) / file).string());
      rows.labels.push_back(static_cast<int32_t>(place - rows.classes.begin()));
    }
  }
  if (rows.labels.empty()) fail_data("'", directory, "' has no class folders with texts.");
  rows.texts.assign(texts->begin(), texts->end());
  rows.owner = std::move(texts);
  rows.name = [names, directory](int64_t i) {
    return (fs::path(directory) / (*names)[static_cast<size_t>(i)]).string();
  };
  return rows;
}

std::vector<std::string> table_classes(const std::string& path, bool pairs) {
  std::set<std::string, std::less<>> found;
  const TsvFile file(path);
  file.each([&](const TsvRow& row) {
    check_columns(row, pairs);
    if (is_table_header(row)) return;
    const std::string_view label = plain_label(row.columns[0]);
    if (label.empty()) row.fail("has an empty label.");
    if (!found.contains(label)) {
      require_utf8(label, cat("In line ", row.line, " of '", path, "' the label"));
      found.emplace(label);
    }
    if (found.size() > kMaxClasses) {
      row.fail("brings the ", found.size(), "th class; is the label in the first column?");
    }
  });
  std::vector<std::string> classes(found.begin(), found.end());
  if (std::all_of(classes.begin(), classes.end(), is_count)) {
    std::sort(classes.begin(), classes.end(),
              [](const auto& a, const auto& b) { return std::stol(a) < std::stol(b); });
  }
  return classes;
}

SequenceRows read_text_table(const std::string& path, const std::vector<std::string>& classes,
                             bool pairs) {
  SequenceRows rows;
  rows.format = pairs ? "retrieval" : "text";
  rows.coding = {"bytes", 257, pairs};
  rows.classes = classes;
  std::map<std::string, int32_t, std::less<>> places;
  for (const std::string& name : classes) places.emplace(name, static_cast<int32_t>(places.size()));
  const TsvFile file(path);
  int64_t first_line = 1;
  file.each([&](const TsvRow& row) {
    check_columns(row, pairs);
    if (is_table_header(row)) return void(first_line = 2);
    const auto place = places.find(plain_label(row.columns[0]));
    if (place == places.end()) {
      row.fail("has the label ", shown(row.columns[0], 60), "; known are ",
               join({classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(
                                                            std::min<size_t>(classes.size(), 10))},
                    ", "),
               classes.size() > 10 ? " and others." : ".");
    }
    for (size_t k = pairs ? 3 : 1; k < row.columns.size(); ++k) {
      if (row.columns[k].empty()) row.fail("has an empty text in column ", k + 1, ".");
      rows.texts.push_back(row.columns[k]);
    }
    rows.labels.push_back(place->second);
  });
  if (rows.labels.empty()) fail_data("'", path, "' has a header and no samples.");
  rows.owner = file.file();
  rows.name = [path, first_line](int64_t i) { return cat(path, ":", i + first_line); };
  return rows;
}

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

StoredSequences::StoredSequences(SequenceRows rows, int64_t max_length) : rows_(std::move(rows)) {
  if (max_length == 0) return;
  for (std::string_view& text : rows_.texts) {
    text = text.substr(0, static_cast<size_t>(max_length));
  }
}

SequenceSample StoredSequences::sample(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  if (!rows_.coding.pairs) return {tokens_of_codes(rows_.texts[at]), {}, rows_.labels[at]};
  return {tokens_of_codes(rows_.texts[2 * at]), tokens_of_codes(rows_.texts[2 * at + 1]),
          rows_.labels[at]};
}

int64_t StoredSequences::length(int64_t i) const {
  const auto at = static_cast<size_t>(i);
  const size_t length = rows_.coding.pairs
                            ? std::max(rows_.texts[2 * at].size(), rows_.texts[2 * at + 1].size())
                            : rows_.texts[at].size();
  return static_cast<int64_t>(length);
}

}  // namespace tost
