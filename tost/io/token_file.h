// Files of 16-bit token ids, little-endian. Files of nanoGPT hold only the ids. Files of llm.c
// begin with a header of 256 32-bit numbers: magic 20240520, version 1, number of tokens, zeros.
// Their 32-bit variant (magic 20240801) is not supported.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tost/base/file.h"

namespace tost {

// The header of llm.c's token files.
using TokenFileHeader = std::array<int32_t, 256>;  // magic, version, number of tokens, zeros
inline constexpr size_t kTokenHeaderBytes = sizeof(TokenFileHeader);
inline constexpr int32_t kTokenMagic = 20240520;
inline constexpr int32_t kTokenVersion = 1;
inline constexpr int32_t kWideTokenMagic = 20240801;  // of its files of 32-bit tokens

enum class TokenFormat { kNanoGpt, kLlmC };

// The format "nanogpt" or "llmc". Throws a usage Error for other names.
TokenFormat token_format_from_name(const std::string& name);

inline constexpr int64_t kMaxTokenFileVocab = 65'536;

// A token file, mapped into memory. Immutable.
class TokenFile {
 public:
  // A file with the magic number has the format of llm.c, other files that of nanoGPT. Throws a
  // data Error naming the file for an odd size, no tokens, another version, a wrong count, or
  // 32-bit tokens.
  explicit TokenFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  TokenFormat format() const { return format_; }
  int64_t size() const { return size_; }
  const uint16_t* ids() const { return ids_; }  // size() of them, as long as this lives

  // The largest id; reads the whole file.
  int32_t largest() const;
  // Throws a data Error naming file, position and id if one of `count` ids is not below vocab.
  void check_below(int64_t vocab, int64_t begin, int64_t count) const;

 private:
  std::filesystem::path path_;
  MappedFile map_;
  TokenFormat format_ = TokenFormat::kNanoGpt;
  int64_t size_ = 0;
  const uint16_t* ids_ = nullptr;
};

// Without finish() nothing remains.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, TokenFormat format);

  // Appends ids. Throws a data Error for ids above 65,535, and for more than a header can count.
  void add(const std::vector<int32_t>& ids);
  void finish();  // durable
  int64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  TokenFormat format_;
  AtomicFile file_;
  int64_t size_ = 0;
};

}  // namespace tost
