// Writes texts as token files, for this program and others; and what writes any new data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tost/io/token_data.h"

namespace tost {

struct ExportOptions {
  std::function<void(int64_t done, int64_t total)> progress;
  std::function<bool()> stop;  // called before every picture, some samples or a MiB of text
};

// A folder that is renamed to OUT when it is complete, and otherwise removed. The folder is written
// next to OUT, so that no existing file changes, and has the usual permissions. Throws a usage
// Error if OUT exists and is not an empty folder.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& out);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void finish();

 private:
  std::filesystem::path out_, holder_, path_;
};

// Options of export_tokens(), whose progress counts bytes of text.
struct TokenExportOptions : ExportOptions {
  TokenFormat format = TokenFormat::kNanoGpt;
};

struct TokenExport {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::map<std::string, int64_t> tokens, bytes;  // by split
};

// Writes OUT/{train,val,test}.bin for existing splits, and OUT/tokenizer.json, for open_text.
// Returns nothing if `stop` ended it. Throws a usage Error if the text's path holds tokens, or the
// vocabulary does not fit 16 bits, and the Errors of NewFolder and open_text. Throws a data Error
// for a file that cannot be written.
std::optional<TokenExport> export_tokens(const TextSpec& spec, const std::string& out,
                                         const TokenExportOptions& options = {});

// Finds an offset, after about `wanted` bytes, at which a cut of `text` changes no token: between a
// character that is no white space and an ASCII space or newline. Returns the text's end if there
// is no such offset.
size_t stretch_end(std::string_view text, size_t wanted);

}  // namespace tost
