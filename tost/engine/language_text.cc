#include "tost/engine/language_text.h"

#include <algorithm>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/io/parse_json.h"
#include "tost/io/text_layout.h"

namespace tost {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Whether the model was trained on the file, by the name in the model's description.
bool learned_from(const LanguageInfo& info, const fs::path& file) {
  const json data = info.training.is_object() ? info.training.value("data", json()) : json();
  const fs::path path = absolute_path(file);
  return data == path.filename().string() ||
         (path.filename() == "input.txt" && data == path.parent_path().filename().string());
}

// The split that is scored by default: the held-out part of the model's training text.
std::string default_split(const TextLayout& layout, const LanguageInfo& info) {
  if (is_folder(layout.path)) {
    return layout.parts.contains("test") ? "test" : "validation";
  }
  const bool held_back = layout.parts.contains("validation") && learned_from(info, layout.path);
  return held_back ? "validation" : "whole";
}

// Concatenates texts, with an end of text after each.
class RowStream {
 public:
  RowStream(const LanguageInfo& info, const std::string& path) : tokenizer_(*info.tokenizer) {
    if (tokenizer_.end_of_text() < 0) {
      fail_usage("A text in rows ('", path, "') needs an end-of-text token, which the model's ",
                 tokenizer_.kind(), " tokenizer lacks; use the usual protocol on plain text.");
    }
  }

  void add(std::string_view text, const std::string& where) {
    const std::vector<int32_t> ids = tokenizer_.encode(text, where);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ids_.push_back(tokenizer_.end_of_text());
    bytes_ += static_cast<int64_t>(text.size());
  }

  LanguageText finish(const std::string& name, const std::string& split) const {
    return {std::make_shared<TokenSource>(ids_, name), bytes_, split};
  }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;
  int64_t bytes_ = 0;
};

LanguageText from_json_rows(const LanguageTextSpec& spec, const LanguageInfo& info) {
  if (!spec.split.empty()) {
    fail_usage("'", spec.path, "' holds rows, which have no splits; leave out the split.");
  }
  RowStream stream(info, spec.path);
  for (const JsonRow& row : read_rows(spec.path)) stream.add(string_of(row, "text"), row.where);
  return stream.finish(cat("'", spec.path, "'"), "");
}

LanguageText from_lines(const TextPart& part, const std::string& split, const LanguageInfo& info) {
  const TextFile file(part);
  const std::string name = cat("'", part.file.string(), "' (", split, ")");
  RowStream stream(info, part.file.string());
  std::string_view rest = file.text();
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end == rest.npos ? end : end + 1);
    rest.remove_prefix(line.size());
    if (line.find_first_not_of(" \t\r\n\v\f") == line.npos) line = {};
    stream.add(line, cat(name, " line ", number));
  }
  return stream.finish(name, split);
}

}  // namespace

LanguageText load_language_text(const LanguageTextSpec& spec, const LanguageInfo& info) {
  const bool jsonl = fs::path(spec.path).extension() == ".jsonl";
  const TextLayout layout = jsonl ? TextLayout{} : find_text(spec.path, spec.holdout);
  if (!layout.tokens) {
    needed_tokenizer(info, cat("the text '", spec.path, "' cannot be scored"));
  }
  if (jsonl) return from_json_rows(spec, info);
  const std::string split = spec.split.empty() ? default_split(layout, info) : spec.split;
  if (spec.rows && !layout.tokens) return from_lines(find_text_part(layout, split), split, info);
  const TextSplit opened = open_text_split(
      {.path = spec.path, .tokenizer = "auto", .holdout = spec.holdout}, split, info.tokenizer);
  return {opened.tokens, opened.bytes, split};
}

fs::path find_rows_file(const fs::path& path) {
  if (!is_folder(path)) return path;  // reading it reports the error
  std::vector<fs::path> found;
  for (const FolderEntry& entry : folder_entries(path)) {
    if (entry.path.extension() == ".jsonl") found.push_back(entry.path);
  }
  if (found.size() != 1) {
    fail_data("'", path.string(), "' holds ", found.size(), " .jsonl files; give the one to read.");
  }
  return found.front();
}

std::vector<JsonRow> read_rows(const fs::path& file) {
  const MappedFile map(file);
  std::vector<JsonRow> rows;
  int64_t number = 0;
  for (const std::string_view line : lines_of(map.bytes())) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = cat("'", file.string(), "' line ", number);
    JsonRow row{parse_json(line, where), where};
    if (!row.object.is_object()) fail_data(row.where, " is not a JSON object.");
    rows.push_back(std::move(row));
  }
  if (rows.empty()) fail_data("'", file.string(), "' has no rows.");
  return rows;
}

std::string string_of(const JsonRow& row, const std::string& key) {
  const auto found = row.object.find(key);
  if (found == row.object.end() || !found->is_string()) {
    fail_data(row.where, " lacks \"", key, "\", a string.");
  }
  return found->get<std::string>();
}

void choose_tokenizer(const TokenizerChoice& choice, LanguageInfo& info, const std::string& file) {
  if (choice.name.empty()) return;
  check_tokenizer_name(choice.name);
  if (choice.name == "auto" || info.tokenizer != nullptr) {
    return check_same_tokenizer(choice.name, info, file);
  }
  const auto tokenizer = named_tokenizer(choice.name, choice.data, choice.holdout);
  if (tokenizer->vocab_size() > info.config.vocab) {
    fail_usage("The tokenizer ", choice.name, " has ", human_number(tokenizer->vocab_size()),
               " tokens but the model of '", file, "' ", human_number(info.config.vocab),
               "; give the one it was trained with.");
  }
  info.tokenizer = tokenizer;
}

void check_same_tokenizer(const std::string& name, const LanguageInfo& info,
                          const std::string& file) {
  if (name == "auto" || info.tokenizer == nullptr) return;
  const std::string kind = info.tokenizer->kind();
  const std::string expected = kind == "words" ? cat("words:", info.tokenizer->vocab_size()) : kind;
  if (name == expected || (kind == "gpt2" && starts_with(name, "gpt2:"))) return;
  fail_usage("'", file, "' was trained with tokenizer ", expected, " and cannot continue with ",
             name, "; leave tokenizer out.");
}

}  // namespace tost
