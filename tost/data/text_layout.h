// Where the splits of a text lie: which files, and which part of them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "tost/io/mapped_file.h"

namespace tost {

// Of n characters (or tokens) of the file, those from floor(n * begin) up to floor(n * end).
struct TextPart {
  std::filesystem::path file;
  double begin = 0, end = 1;
};

struct TextLayout {
  std::string path;     // as it was given
  bool tokens = false;  // files of token ids, else text
  bool single = false;  // one file without splits of its own
  bool input_txt = false;
  std::map<std::string, TextPart> parts;  // of train, validation, test, those there are
  std::filesystem::path tokenizer_file;   // tokenizer.json next to token files; empty: none
};

// `path`: a .bin or another single file (text), or a folder, recognised in this order by
//   train.bin or the other splits' files   token files
//   train.txt or the other splits' files   text
//   input.txt                              text without splits
// where the validation split may be called val, valid or validation. Without a validation file the
// last share `holdout` of the training one is it. Throws a data Error where there is nothing of the
// kind, a usage Error for a holdout outside [0, 1).
TextLayout find_text(const std::string& path, double holdout);

// train, validation (or val, valid), test; or whole: all of a single file. Throws a usage Error for
// another name, a data Error naming those there are for a split that is missing.
TextPart find_text_part(const TextLayout& layout, const std::string& split);

// A part of a text file, mapped. Characters are counted by their first bytes, so that any text can
// be cut.
class TextFile {
 public:
  explicit TextFile(const TextPart& part);
  std::string_view text() const { return text_; }  // lives as long as this

 private:
  MappedFile map_;
  std::string_view text_;
};

}  // namespace tost
