// Finds the splits of a text, which are files or parts of files, and makes tokenizers by name.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tost/base/file.h"
#include "tost/io/tokenizer.h"

namespace tost {

// A part of a file of n characters (or tokens): those from floor(n * begin) up to floor(n * end).
struct TextPart {
  std::filesystem::path file;
  double begin = 0, end = 1;
};

struct TextLayout {
  std::string path;     // as the caller passed it
  bool tokens = false;  // files of token ids, else text
  bool single = false;  // one file without splits
  bool input_txt = false;
  std::map<std::string, TextPart> parts;  // existing ones of train, validation, test
  std::filesystem::path tokenizer_file;   // tokenizer.json next to token files; empty: none
};

// `path` is a .bin file, another file (text), or a folder. Folders are recognised, in order, by
//   train.bin or the other splits' files   token files
//   train.txt or the other splits' files   text
//   input.txt                              text without splits
// where the validation split may be called val, valid or validation. If there is no validation
// file, the last share `holdout` of the training file is the validation split. Throws a data Error
// if no file is found, and a usage Error for a holdout outside [0, 1).
TextLayout find_text(const std::string& path, double holdout);

// The part of a file for a split (train, validation or val or valid, test), or the whole single
// file for `whole`. Throws a usage Error for an unknown name, and a data Error with the existing
// splits for a missing split.
TextPart find_text_part(const TextLayout& layout, const std::string& split);

// The file of a split of a task of tokens (token_task.h).
inline std::filesystem::path token_task_file(const std::filesystem::path& folder,
                                             const std::string& split) {
  return folder / (split + ".safetensors");
}
// Whether the folder has the files of a task of tokens.
bool is_token_task(const std::filesystem::path& folder);

// A mapped part of a text file. Counts characters by their first bytes, which works for any bytes.
class TextFile {
 public:
  explicit TextFile(const TextPart& part);
  std::string_view text() const { return text_; }  // lives as long as this

 private:
  MappedFile map_;
  std::string_view text_;
};

// Throws a usage Error unless `name` is auto, bytes, chars, words:N, gpt2, gpt2:PATH or file:PATH.
void check_tokenizer_name(const std::string& name);

// The tokenizer for a layout of text:
//   auto       chars for a folder whose text is input.txt, in UTF-8 and up to 16 MiB; else bytes
//   chars      the characters of all splits
//   words:N    N ids in all: the most frequent words of the training text, <unk> and <eos>
//   gpt2       its vocabulary from TOST_GPT2, the folder of the data, or gpt2-bpe/ next to that
//   gpt2:PATH  from there (see load_gpt2_tokenizer)
//   file:PATH  see read_tokenizer_file()
std::shared_ptr<const Tokenizer> make_text_tokenizer(const std::string& name,
                                                     const TextLayout& layout);

// The tokenizer for token files: auto is that of tokenizer.json (null if there is none); bytes,
// gpt2 and file are also possible. Throws a usage Error for a tokenizer that needs a text.
std::shared_ptr<const Tokenizer> find_token_tokenizer(const std::string& name,
                                                      const TextLayout& layout);

// Makes a tokenizer as make_text_tokenizer() does. If `data` is no text, chars and words:N throw a
// usage Error. gpt2 without a path looks in the folder of `data`.
std::shared_ptr<const Tokenizer> named_tokenizer(const std::string& name, const std::string& data,
                                                 double holdout);

// Reads a file with the JSON of Tokenizer::to_json(). Throws a data Error naming the file.
std::shared_ptr<const Tokenizer> read_tokenizer_file(const std::filesystem::path& file);

}  // namespace tost
