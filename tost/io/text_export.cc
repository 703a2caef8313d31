// Encodes a text in parts and writes its splits as token files.
#include "tost/io/text_export.h"

#include <algorithm>
#include <cerrno>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/text_layout.h"

namespace tost {
namespace {

constexpr size_t kStretch = size_t{1} << 20;

// Whether the character that ends at `end` can be white space. Characters of several bytes count as
// white space if their first byte may begin white space.
bool may_end_in_space(std::string_view text, size_t end) {
  const auto byte = [&](size_t back) {
    return end < back ? uint8_t{0} : static_cast<uint8_t>(text[end - back]);
  };
  if (byte(1) < 0x80) return byte(1) == ' ' || (byte(1) >= '\t' && byte(1) <= '\r');
  if (byte(2) == 0xC2) return true;
  return byte(3) == 0xE1 || byte(3) == 0xE2 || (byte(3) == 0xE3 && byte(2) == 0x80);
}

// The end of the first character that ends at or after `wanted` bytes.
size_t character_end(std::string_view text, size_t wanted) {
  size_t at = std::min(wanted, text.size());
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

class TokenExporter {
 public:
  TokenExporter(const TextLayout& layout, const TokenExportOptions& options) : options_(options) {
    for (const auto& [split, part] : layout.parts) {
      total_ += static_cast<int64_t>(TextFile(part).text().size());
    }
  }

  // Writes a split; returns false if it was stopped before the end.
  bool write(const TextPart& part, const std::string& split, const std::filesystem::path& folder,
             TokenExport& result) {
    const TextFile file(part);
    std::string_view rest = file.text();
    TokenFileWriter writer(folder / (split == "validation" ? "val.bin" : split + ".bin"),
                           options_.format);
    result.bytes[split] = static_cast<int64_t>(rest.size());
    while (!rest.empty()) {
      if (options_.stop && options_.stop()) return false;
      const bool chars = result.tokenizer->kind() == "chars";
      const size_t end = chars ? character_end(rest, kStretch) : stretch_end(rest, kStretch);
      try {
        writer.add(result.tokenizer->encode(rest.substr(0, end)));
      } catch (const Error& error) {
        throw Error(error.kind(),
                    cat("'", part.file.string(), "' (", split, "), counted from byte ",
                        file.text().size() - rest.size(), ": ", error.what()));
      }
      rest.remove_prefix(end);
      done_ += static_cast<int64_t>(end);
      if (options_.progress) options_.progress(done_, total_);
    }
    writer.finish();
    result.tokens[split] = writer.size();
    return true;
  }

 private:
  const TokenExportOptions& options_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

// "a/b/" names the same folder as "a/b".
NewFolder::NewFolder(const std::filesystem::path& out) : out_((out / "").parent_path()) {
  check_new_folder(out_);
  if (out_.has_parent_path()) make_directories(out_.parent_path());
  int number = 0;
  do {
    holder_ = cat(out_.string(), ".tmp.", ++number);
  } while (::mkdir(holder_.c_str(), 0700) != 0 && errno == EEXIST);
  path_ = holder_ / "data";
  make_directories(path_);
}

NewFolder::~NewFolder() {
  discard(holder_);
}

void NewFolder::finish() {
  rename_durably(path_, out_);
}

size_t stretch_end(std::string_view text, size_t wanted) {
  for (size_t at = std::max<size_t>(wanted, 1); at < text.size(); ++at) {
    if ((text[at] == ' ' || text[at] == '\n') && !may_end_in_space(text, at)) return at;
  }
  return text.size();
}

std::optional<TokenExport> export_tokens(const TextSpec& spec, const std::string& out,
                                         const TokenExportOptions& options) {
  check_new_folder(out);
  check_tokenizer_name(spec.tokenizer);
  const TextLayout layout = find_text(spec.path, spec.holdout);
  if (layout.tokens) fail_usage("'", spec.path, "' holds tokens already; give the text itself.");
  TokenExport result;
  result.tokenizer = make_text_tokenizer(spec.tokenizer, layout);
  if (result.tokenizer->vocab_size() > kMaxTokenFileVocab) {
    fail_usage("A vocabulary of ", result.tokenizer->vocab_size(), " does not fit the 16-bit ids ",
               "of token files; ", kMaxTokenFileVocab, " is the most.");
  }
  NewFolder folder(out);
  TokenExporter exporter(layout, options);
  for (const auto& [split, part] : layout.parts) {
    if (TextFile(part).text().empty()) continue;
    if (!exporter.write(part, split, folder.path(), result)) return std::nullopt;
  }
  if (result.tokens.empty()) fail_data("'", spec.path, "' holds no text: its files are empty.");
  write_file_atomic(folder.path() / "tokenizer.json",
                    json_text(result.tokenizer->to_json()) + "\n");
  folder.finish();
  return result;
}

}  // namespace tost
