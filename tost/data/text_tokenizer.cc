#include "tost/data/text_tokenizer.h"

#include <charconv>
#include <cstdlib>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/base/utf8.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostForChars = size_t{16} << 20;
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
    // The part of a file cannot have characters that the file has not.
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
  return !text.empty() && text.size() <= kMostForChars && first_invalid_utf8(text) == text.size();
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
