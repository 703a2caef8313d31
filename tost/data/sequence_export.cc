#include "tost/data/sequence_export.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/listops.h"
#include "tost/data/listops_dataset.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_generated.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 200;     // samples made between two looks at `stop`
constexpr int64_t kFolder = 1'000;  // pictures a folder
constexpr int64_t kBlock = 4'096;   // a small file takes one block, and its name some bytes

struct SplitFiles {
  const char* split;
  const char* table;
  const char* folder;
};
constexpr SplitFiles kSplitFiles[] = {{"train", "basic_train.tsv", "train"},
                                      {"validation", "basic_val.tsv", "val"},
                                      {"test", "basic_test.tsv", "test"}};

// Sample i as bytes: a line, or a picture.
using Make = std::function<std::string(int64_t i)>;

std::vector<std::string> make_batch(const Make& make, int64_t begin, int64_t end) {
  std::vector<std::string> made(static_cast<size_t>(end - begin));
  at::parallel_for(begin, end, 8, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) made[static_cast<size_t>(i - begin)] = make(i);
  });
  return made;
}

class Exporter {
 public:
  Exporter(const SequenceSpec& spec, const SequenceExportOptions& options)
      : spec_(spec), options_(options), total_(spec.train_size + 2 * spec.test_size) {}

  // False where it was stopped.
  bool write(const fs::path& folder) {
    for (const SplitFiles& files : kSplitFiles) {
      const bool done = spec_.path == "listops"
                            ? write_table(folder / files.table, files.split)
                            : write_pictures(folder / files.folder, files.split);
      if (!done) return false;
    }
    return true;
  }

  // From the first samples of the training split.
  int64_t expected_bytes() const {
    const int64_t tried = std::min<int64_t>(8, spec_.train_size);
    const bool table = spec_.path == "listops";
    int64_t bytes = 0;
    for (const std::string& one : make_batch(maker("train"), 0, tried)) {
      const auto size = static_cast<int64_t>(one.size());
      bytes += table ? size : (size / kBlock + 1) * kBlock + 128;
    }
    return bytes / tried * total_;
  }

  SequenceExport result() const { return result_; }

 private:
  Make maker(const std::string& split) const {
    if (spec_.path == "listops") {
      const ListOpsRules rules = generated_rules(spec_);
      return [=, this](int64_t i) {
        const std::string code = listops_sample(rules, spec_.seed, split, i);
        return cat(listops_text(code), "\t", listops_value(code), "\r\n");
      };
    }
    const std::shared_ptr<GeneratedPathfinder> pictures = generated_pathfinder(spec_, split);
    return [pictures](int64_t i) { return encode_png(pictures->image(i)); };
  }

  // Calls take(i, bytes) in order.
  template <typename Take>
  bool each(const std::string& split, Take take) {
    const Make make = maker(split);
    const int64_t size = generated_size(spec_, split);
    for (int64_t begin = 0; begin < size; begin += kBatch) {
      if (options_.stop && options_.stop()) return false;
      const int64_t end = std::min(begin + kBatch, size);
      const std::vector<std::string> made = make_batch(make, begin, end);
      for (int64_t i = begin; i < end; ++i) {
        take(i, made[static_cast<size_t>(i - begin)]);
        result_.bytes += static_cast<int64_t>(made[static_cast<size_t>(i - begin)].size());
        ++result_.samples;
      }
      if (options_.progress) options_.progress(result_.samples, total_);
    }
    return true;
  }

  bool write_table(const fs::path& path, const std::string& split) {
    OutputFile file(path);
    file.write("Source\tTarget\r\n");
    const bool done = each(split, [&](int64_t, const std::string& line) { file.write(line); });
    file.sync();
    file.close();
    return done;
  }

  bool write_pictures(const fs::path& folder, const std::string& split) {
    const auto pictures = generated_pathfinder(spec_, split);
    const PathfinderRules rules = pathfinder_rules(pictures->side(), spec_.contour_length);
    make_directories(folder / "metadata");
    std::string list;
    return each(split, [&](int64_t i, const std::string& png) {
      const int64_t number = i / kFolder, place = i % kFolder;
      const std::string inside = cat("imgs/", number), name = cat("sample_", place, ".png");
      if (place == 0) make_directories(folder / inside);
      OutputFile file(folder / inside / name);
      file.write(png);
      file.close();
      list += cat(inside, " ", name, " ", place, " ", pictures->label(i), " ", rules.continuity,
                  " ", rules.contour_length, " ", rules.distractor_length, " ", rules.dash_length,
                  " ", rules.thickness, " ", rules.gaps.front(), " 1\n");
      if (place + 1 < kFolder && i + 1 < pictures->size()) return;
      write_file_atomic(folder / "metadata" / cat(number, ".npy"), list);
      list.clear();
    });
  }

  const SequenceSpec& spec_;
  const SequenceExportOptions& options_;
  int64_t total_;
  SequenceExport result_;
};

fs::path existing_parent(fs::path path) {
  path = absolute_path(path);
  while (!path_exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

void check_room(const fs::path& out, int64_t needed) {
  const int64_t free = free_bytes(existing_parent(out));
  if (needed > free) {
    fail_data("The samples need about ", human_bytes(needed), ", but '", out.string(),
              "' lies on a disk with ", human_bytes(free), " free; write fewer or elsewhere.");
  }
}

}  // namespace

SequenceExport export_sequences(const SequenceSpec& spec, const std::string& out,
                                const SequenceExportOptions& options) {
  constexpr int64_t kMost = 1'000'000'000;
  if (spec.path != "listops" && spec.path != "pathfinder" && spec.path != "pathx") {
    fail_usage("'", spec.path, "' is not a generated set; use listops, pathfinder or pathx.");
  }
  if (std::min(spec.train_size, spec.test_size) < 1 ||
      std::max(spec.train_size, spec.test_size) > kMost) {
    fail_usage("A split has 1 to ", kMost, " samples, not ",
               spec.train_size < 1 || spec.train_size > kMost ? spec.train_size : spec.test_size,
               ".");
  }
  const fs::path place = fs::path(out).has_filename() ? fs::path(out) : fs::path(out).parent_path();
  check_new_folder(place);
  if (spec.path == "listops") {
    check_listops_rules(generated_rules(spec));
  }
  Exporter exporter(spec, options);
  check_room(place, exporter.expected_bytes());
  const fs::path unfinished =
      place.parent_path() / cat(".", place.filename().string(), ".tost-unfinished");
  remove_tree(unfinished);
  try {
    make_directories(unfinished);
    if (!exporter.write(unfinished)) {
      discard(unfinished);
      return {};
    }
    rename_durably(unfinished, place);
  } catch (...) {
    discard(unfinished);
    throw;
  }
  return exporter.result();
}

}  // namespace tost
