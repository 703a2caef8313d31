#include <fstream>
#include <limits>

#include "tost/base/error.h"
#include "tost/io/token_file.h"
#include "tost/io/token_file_header.h"

namespace tost {
namespace {

std::string header_bytes(int64_t tokens) {
  const TokenFileHeader header{kTokenMagic, kTokenVersion, static_cast<int32_t>(tokens)};
  return {reinterpret_cast<const char*>(header.data()), kTokenHeaderBytes};
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, TokenFormat format)
    : path_(path), temporary_(path.string() + ".tmp"), format_(format), file_(temporary_) {
  if (format_ == TokenFormat::kLlmC) file_.write(header_bytes(0));
}

TokenFileWriter::~TokenFileWriter() {
  if (!finished_) discard(temporary_);
}

void TokenFileWriter::add(const std::vector<int32_t>& ids) {
  const auto count = static_cast<int64_t>(ids.size());
  if (format_ == TokenFormat::kLlmC && size_ > std::numeric_limits<int32_t>::max() - count) {
    fail_data("'", path_.string(), "' would hold more tokens than the header of llm.c's files ",
              "can count (2^31 - 1); write nanogpt's format or split the text.");
  }
  std::vector<uint16_t> narrow(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kMaxTokenFileVocab) {
      fail_data("Token ", ids[i], " does not fit the 16 bits of a token file.");
    }
    narrow[i] = static_cast<uint16_t>(ids[i]);
  }
  file_.write({reinterpret_cast<const char*>(narrow.data()), 2 * narrow.size()});
  size_ += count;
}

void TokenFileWriter::finish() {
  file_.sync();
  file_.close();
  if (format_ == TokenFormat::kLlmC) {
    // The count is known only now.
    std::fstream header(temporary_, std::ios::in | std::ios::out | std::ios::binary);
    header << header_bytes(size_) << std::flush;
    if (!header) fail_data("Cannot write '", temporary_.string(), "'.");
    header.close();
    OutputFile(temporary_, OutputFile::Mode::kAppend).sync();
  }
  rename_durably(temporary_, path_);
  finished_ = true;
}

}  // namespace tost
