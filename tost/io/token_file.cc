#include "tost/io/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

TokenFileHeader header_of(std::string_view bytes) {
  TokenFileHeader header{};
  std::memcpy(header.data(), bytes.data(), kTokenHeaderBytes);
  return header;
}

bool has_magic(std::string_view bytes, int32_t wanted) {
  int32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == wanted;
}

TokenFormat format_of(std::string_view bytes, const std::string& path) {
  if (has_magic(bytes, kWideTokenMagic)) {
    fail_data("'", path, "' is an llm.c file of 32-bit tokens (it begins with ", kWideTokenMagic,
              "); 16-bit tokens (", kTokenMagic, ") are read: write it again for GPT-2.");
  }
  return has_magic(bytes, kTokenMagic) ? TokenFormat::kLlmC : TokenFormat::kNanoGpt;
}

void check_header(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kTokenHeaderBytes) {
    fail_data("'", path, "' has ", bytes.size(), " bytes, fewer than the header of ",
              kTokenHeaderBytes, " of llm.c's token files; it is truncated.");
  }
  const TokenFileHeader header = header_of(bytes);
  if (header[1] != kTokenVersion) {
    fail_data("'", path, "' is an llm.c token file of version ", header[1], "; version ",
              kTokenVersion, " (16-bit tokens of GPT-2) is read.");
  }
  const auto held = static_cast<int64_t>((bytes.size() - kTokenHeaderBytes) / 2);
  if (header[2] != held) {
    fail_data("'", path, "' claims ", header[2], " tokens in its header and holds ", held,
              "; it is truncated or damaged.");
  }
}

std::string header_bytes(int64_t tokens) {
  const TokenFileHeader header{kTokenMagic, kTokenVersion, static_cast<int32_t>(tokens)};
  return {reinterpret_cast<const char*>(header.data()), kTokenHeaderBytes};
}

}  // namespace

TokenFormat token_format_from_name(const std::string& name) {
  const std::vector<std::string> names = {"nanogpt", "llmc"};
  if (name == names[0]) return TokenFormat::kNanoGpt;
  if (name == names[1]) return TokenFormat::kLlmC;
  fail_usage("Unknown format of token files '", name, "'; use ", join(names, " or "), ".",
             did_you_mean(name, names));
}

TokenFile::TokenFile(const std::filesystem::path& path) : path_(path), map_(path) {
  std::string_view bytes = map_.bytes();
  if (bytes.size() % 2 != 0) {
    fail_data("'", path.string(), "' has ", bytes.size(),
              " bytes, an odd number; a file of 16-bit tokens is truncated or something else.");
  }
  format_ = format_of(bytes, path.string());
  if (format_ == TokenFormat::kLlmC) {
    check_header(bytes, path.string());
    bytes.remove_prefix(kTokenHeaderBytes);
  }
  if (bytes.empty()) fail_data("'", path.string(), "' holds no tokens.");
  size_ = static_cast<int64_t>(bytes.size() / 2);
  ids_ = reinterpret_cast<const uint16_t*>(bytes.data());  // mappings begin at a page
}

int32_t TokenFile::largest() const {
  return *std::max_element(ids_, ids_ + size_);
}

void TokenFile::check_below(int64_t vocab, int64_t begin, int64_t count) const {
  uint16_t most = 0;  // a loop that compilers turn into wide instructions
  for (int64_t i = begin; i < begin + count; ++i) most = std::max(most, ids_[i]);
  if (most < vocab) return;
  const auto* found = std::find_if(ids_ + begin, ids_ + begin + count,
                                   [&](uint16_t id) { return int64_t{id} >= vocab; });
  fail_data("'", path_.string(), "' has the token ", *found, " at place ", found - ids_,
            ", outside the vocabulary of ", vocab,
            "; it was made with another tokenizer or is not a token file.");
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, TokenFormat format)
    : path_(path), format_(format), file_(path) {
  if (format_ == TokenFormat::kLlmC) file_.write(header_bytes(0));
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
  if (format_ == TokenFormat::kLlmC) {
    // Writes the header again, because the count is known only now.
    std::fstream header(file_.temporary(), std::ios::in | std::ios::out | std::ios::binary);
    header << header_bytes(size_) << std::flush;
    if (!header) fail_data("Cannot write '", path_.string(), "'.");
  }
  file_.finish();
}

}  // namespace tost
