#include "tost/io/text_layout.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/io/named_sets.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kValidationNames = {"validation", "valid", "val"};

std::map<std::string, TextPart> files_of_splits(const fs::path& folder, const char* extension) {
  std::map<std::string, TextPart> parts;
  for (const std::string& split : kSplits) {
    const auto names = split == "validation" ? kValidationNames : std::vector<std::string>{split};
    for (const std::string& name : names) {
      const fs::path file = folder / (name + extension);
      if (!is_plain_file(file)) continue;
      if (parts.contains(split)) {
        fail_data("'", folder.string(), "' has two validation files, '",
                  parts[split].file.filename().string(), "' and '", file.filename().string(),
                  "'; remove one.");
      }
      parts[split] = {file};
    }
  }
  return parts;
}

void split_folder(const fs::path& folder, TextLayout& layout) {
  layout.parts = files_of_splits(folder, ".bin");
  layout.tokens = !layout.parts.empty();
  if (layout.tokens && is_plain_file(folder / "tokenizer.json")) {
    layout.tokenizer_file = folder / "tokenizer.json";
  }
  if (!layout.tokens) layout.parts = files_of_splits(folder, ".txt");
  if (!layout.parts.empty()) return;
  if (!is_plain_file(folder / "input.txt")) {
    fail_data("'", folder.string(), "' holds no text: input.txt, train.txt or train.bin (with ",
              "val and test) is expected.");
  }
  layout.input_txt = true;
  layout.parts["train"] = {folder / "input.txt"};
}

void hold_out(double holdout, TextLayout& layout) {
  layout.single = layout.parts.size() == 1 && layout.parts.contains("train");
  if (holdout == 0 || !layout.parts.contains("train") || layout.parts.contains("validation")) {
    return;
  }
  TextPart& train = layout.parts["train"];
  train.end = 1 - holdout;
  layout.parts["validation"] = {train.file, train.end, 1};
}

// The offset where character `count` begins.
size_t offset_of_character(std::string_view text, size_t count) {
  const auto starts = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (starts(text[at]) && count-- == 0) break;
  }
  return at;
}

}  // namespace

TextLayout find_text(const std::string& path, double holdout) {
  if (!(holdout >= 0 && holdout < 1)) {
    fail_usage("The held-out share is ", holdout, "; it lies between 0 and 1 (excluded).");
  }
  TextLayout layout;
  layout.path = path;
  if (is_folder(path)) {
    split_folder(path, layout);
  } else if (path_exists(path)) {
    layout.tokens = fs::path(path).extension() == ".bin";
    const fs::path vocabulary = fs::path(path).parent_path() / "tokenizer.json";
    if (layout.tokens && is_plain_file(vocabulary)) layout.tokenizer_file = vocabulary;
    layout.parts["train"] = {path};
  } else {
    fail_data("'", path, "' does not exist; a text file or a folder with ",
              "input.txt, train.txt or train.bin is expected.", origin_of(path));
  }
  hold_out(holdout, layout);
  return layout;
}

bool is_token_task(const fs::path& folder) {
  return is_folder(folder) && std::any_of(kSplits.begin(), kSplits.end(), [&](const auto& split) {
           return is_plain_file(token_task_file(folder, split));
         });
}

TextPart find_text_part(const TextLayout& layout, const std::string& split) {
  const bool validation =
      std::find(kValidationNames.begin(), kValidationNames.end(), split) != kValidationNames.end();
  const std::string name = validation ? "validation" : split;
  if (name == "whole") {
    if (!layout.single) {
      fail_data("'", layout.path, "' is not one file; name a split of it: train, validation or ",
                "test.");
    }
    return {layout.parts.at("train").file};
  }
  if (std::find(kSplits.begin(), kSplits.end(), name) == kSplits.end()) {
    fail_usage("Unknown split '", split, "'; use train, validation, test or whole.",
               did_you_mean(split, kSplits));
  }
  const auto found = layout.parts.find(name);
  if (found == layout.parts.end()) {
    std::vector<std::string> names;
    for (const auto& [present, part] : layout.parts) names.push_back(present);
    fail_data("'", layout.path, "' has no ", name, " split; it has ", join(names, ", "), ".");
  }
  return found->second;
}

TextFile::TextFile(const TextPart& part) : map_(part.file), text_(map_.bytes()) {
  if (part.begin == 0 && part.end == 1) return;
  const auto characters = static_cast<double>(std::count_if(
      text_.begin(), text_.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  const auto place = [&](double share) {
    return share == 1 ? text_.size()
                      : offset_of_character(text_, static_cast<size_t>(characters * share));
  };
  const size_t begin = place(part.begin), end = place(part.end);
  text_ = text_.substr(begin, end - begin);
}

namespace {

constexpr size_t kMaxForChars = size_t{16} << 20;
constexpr int64_t kMaxTokenizerFile = int64_t{256} << 20;
const std::vector<std::string> kNames = {"auto", "bytes", "chars", "words", "gpt2", "file"};

struct Choice {
  std::string kind;  // one of kNames
  int64_t words = 0;
  std::string path;  // of gpt2 (empty: to be found) and file
};

Choice parse(const std::string& name) {
  const size_t colon = std::min(name.find(':'), name.size());
  Choice choice;
  choice.kind = name.substr(0, colon);
  const std::string rest = name.substr(std::min(colon + 1, name.size()));
  const bool has_rest = colon < name.size();
  if (std::find(kNames.begin(), kNames.end(), choice.kind) == kNames.end() ||
      (has_rest && choice.kind != "words" && choice.kind != "gpt2" && choice.kind != "file")) {
    fail_usage("Unknown tokenizer '", name, "'; use auto, bytes, chars, words:N, gpt2, ",
               "gpt2:FOLDER or file:TOKENIZER.json.", did_you_mean(choice.kind, kNames));
  }
  if (choice.kind == "words") {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), choice.words);
    if (error != std::errc() || end != rest.data() + rest.size() || choice.words < 3) {
      fail_usage("The tokenizer '", name, "' needs its number of ids, at least 3: for example ",
                 "words:8192.");
    }
  }
  if (choice.kind == "gpt2" && has_rest && rest.empty()) {
    fail_usage("The tokenizer 'gpt2:' lacks the folder or file of its vocabulary after the colon.");
  }
  if (choice.kind == "file" && rest.empty()) {
    fail_usage("The tokenizer '", name, "' needs a file: for example file:tokens/tokenizer.json.");
  }
  choice.path = rest;
  return choice;
}

bool has_gpt2(const fs::path& folder) {
  if (!is_folder(folder)) return false;
  const auto entries = folder_entries(folder);
  return std::any_of(entries.begin(), entries.end(), [](const FolderEntry& entry) {
    return entry.path.filename() == "vocab.bpe" || entry.path.extension() == ".tiktoken";
  });
}

std::shared_ptr<const Tokenizer> find_gpt2(const Choice& choice, const TextLayout& layout) {
  if (!choice.path.empty()) return load_gpt2_tokenizer(choice.path);
  if (const char* set = std::getenv("TOST_GPT2"); set != nullptr && *set != '\0') {
    return load_gpt2_tokenizer(set);
  }
  constexpr char kGive[] =
      "give it as gpt2:FOLDER or by TOST_GPT2 (a folder with vocab.bpe and encoder.json, or a "
      ".tiktoken file).";
  if (layout.path.empty()) fail_usage("Where GPT-2's vocabulary lies is not known; ", kGive);
  const fs::path data = canonical_path(layout.path);
  const fs::path folder = is_folder(data) ? data : data.parent_path();
  for (const fs::path& place : {folder, folder.parent_path() / "gpt2-bpe"}) {
    if (has_gpt2(place)) return load_gpt2_tokenizer(place.string());
  }
  fail_usage("GPT-2's vocabulary is neither in '", folder.string(),
             "' nor in gpt2-bpe next to it; ", kGive);
}

std::shared_ptr<const Tokenizer> make_chars(const TextLayout& layout) {
  CharSet set;
  for (const auto& [split, part] : layout.parts) {
    // Collects the characters of the whole file, which include those of a part.
    const TextFile file(TextPart{part.file});
    set.add(file.text(), cat("'", part.file.string(), "'"));
  }
  return set.tokenizer();
}

std::shared_ptr<const Tokenizer> make_words(const TextLayout& layout, int64_t size) {
  const auto train = layout.parts.find("train");
  if (train == layout.parts.end()) {
    fail_data("'", layout.path, "' has no training text to count the words of.");
  }
  return make_word_tokenizer(TextFile(train->second).text(), size,
                             cat("'", train->second.file.string(), "'"));
}

bool suits_chars(const TextLayout& layout) {
  if (!layout.input_txt) return false;
  const TextFile file(TextPart{layout.parts.at("train").file});
  const std::string_view text = file.text();
  return !text.empty() && text.size() <= kMaxForChars && first_invalid_utf8(text) == text.size();
}

}  // namespace

void check_tokenizer_name(const std::string& name) {
  parse(name);
}

std::shared_ptr<const Tokenizer> make_text_tokenizer(const std::string& name,
                                                     const TextLayout& layout) {
  const Choice choice = parse(name);
  if (choice.kind == "gpt2") return find_gpt2(choice, layout);
  if (choice.kind == "file") return read_tokenizer_file(choice.path);
  if (choice.kind == "words") return make_words(layout, choice.words);
  const bool chars = choice.kind == "chars" || (choice.kind == "auto" && suits_chars(layout));
  return chars ? make_chars(layout) : make_byte_tokenizer();
}

std::shared_ptr<const Tokenizer> find_token_tokenizer(const std::string& name,
                                                      const TextLayout& layout) {
  const Choice choice = parse(name);
  if (choice.kind == "gpt2") return find_gpt2(choice, layout);
  if (choice.kind == "file") return read_tokenizer_file(choice.path);
  if (choice.kind == "bytes") return make_byte_tokenizer();
  if (choice.kind != "auto") {
    fail_usage("'", layout.path, "' holds tokens, not text, so that no tokenizer '", name,
               "' can be made from it; use auto (its tokenizer.json), gpt2, bytes or ",
               "file:TOKENIZER.json.");
  }
  return layout.tokenizer_file.empty() ? nullptr : read_tokenizer_file(layout.tokenizer_file);
}

std::shared_ptr<const Tokenizer> named_tokenizer(const std::string& name, const std::string& data,
                                                 double holdout) {
  const Choice choice = parse(name);
  TextLayout layout;
  layout.path = data;
  if (choice.kind == "chars" || choice.kind == "words") {
    if (!data.empty()) layout = find_text(data, holdout);
    if (data.empty() || layout.tokens) {
      fail_usage("The tokenizer ", name, " is made from a text, and none is given; use ",
                 "file:TOKENIZER.json with one that was made before.");
    }
  }
  return make_text_tokenizer(name, layout);
}

std::shared_ptr<const Tokenizer> read_tokenizer_file(const fs::path& file) {
  const std::string where = cat("'", file.string(), "'");
  return tokenizer_from_json(parse_json(read_file(file, kMaxTokenizerFile), where), where);
}

}  // namespace tost
