#include "tost/data/text_layout.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/named_sets.h"

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
    const fs::path beside = fs::path(path).parent_path() / "tokenizer.json";
    if (layout.tokens && is_plain_file(beside)) layout.tokenizer_file = beside;
    layout.parts["train"] = {path};
  } else {
    fail_data("'", path, "' does not exist; a text file or a folder with ",
              "input.txt, train.txt or train.bin is expected.", origin_of(path));
  }
  hold_out(holdout, layout);
  return layout;
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

}  // namespace tost
