// Labelled sequences: tables of ListOps and of texts, and the lists of Pathfinder's pictures.
#include <filesystem>
#include <fstream>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "tost/data/listops_dataset.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_text.h"
#include "tost/io/image.h"
#include "tost/testing/temp_dir.h"

namespace tost::fuzz {
namespace {

void check_rows(const SequenceRows& rows, bool pairs) {
  promise(!rows.labels.empty(), "a sample");
  promise(rows.texts.size() == rows.labels.size() * (pairs ? 2 : 1), "a label a sample");
  for (const int32_t label : rows.labels) {
    promise(label >= 0 && static_cast<size_t>(label) < rows.classes.size(), "labels are classes");
  }
  for (const std::string_view text : rows.texts) promise(!text.empty(), "no empty text");
}

void try_expression(std::string_view text) {
  std::string error;
  const std::string code = parse_listops(text, error);
  if (!error.empty()) return;
  const int value = listops_value(code);
  promise(value >= 0 && value <= 9, "a digit");
  promise(listops_depth(code) >= 0, "a depth");
  promise(parse_listops(listops_text(code), error) == code, "written and read again the same");
}

void try_table(std::string_view input, bool pairs) {
  const MemoryFile file(input);
  check_rows(read_text_table(file.path(), table_classes(file.path(), pairs), pairs), pairs);
}

// The list of a folder with one picture, imgs/0/a.png.
void try_archive(std::string_view input) {
  static const testing::TempDir folder;
  static const bool made = [] {
    std::filesystem::create_directories(folder.path() / "imgs/0");
    std::filesystem::create_directories(folder.path() / "metadata");
    write_png((folder.path() / "imgs/0/a.png").string(), Image(4, 4, 1));
    return true;
  }();
  std::ofstream(folder.path() / "metadata/0.npy", std::ios::binary) << input;
  const auto pictures = open_pathfinder_archive(folder.path().string());
  promise(made && pictures->size() >= 1, "a picture");
  for (int64_t i = 0; i < pictures->size(); ++i) {
    promise(pictures->label(i) == 0 || pictures->label(i) == 1, "two classes");
    const auto place = std::filesystem::path(pictures->name(i)).lexically_normal().string();
    promise(place.starts_with(folder.path().string()), "pictures inside the folder");
  }
}

}  // namespace

void try_sequences(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] {
    switch (choice % 5) {
      case 0:
        return check_rows(read_listops(MemoryFile(input).path()), false);
      case 1:
        return try_table(input, false);
      case 2:
        return try_table(input, true);
      case 3:
        return try_archive(input);
      default:
        return try_expression(input);
    }
  });
}

}  // namespace tost::fuzz
