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
#include "tost/data/sequence_generated.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 200;  // samples made between two looks at `stop`

struct SplitFiles {
  const char* split;
  const char* table;
};
constexpr SplitFiles kSplitFiles[] = {
    {"train", "basic_train.tsv"}, {"validation", "basic_val.tsv"}, {"test", "basic_test.tsv"}};

// The line of sample i.
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
      if (!write_table(folder / files.table, files.split)) return false;
    }
    return true;
  }

  // From the first samples of the training split.
  int64_t expected_bytes() const {
    const int64_t tried = std::min<int64_t>(8, spec_.train_size);
    int64_t bytes = 0;
    for (const std::string& one : make_batch(maker("train"), 0, tried)) bytes += std::ssize(one);
    return bytes / tried * total_;
  }

  SequenceExport result() const { return result_; }

 private:
  Make maker(const std::string& split) const {
    const ListOpsRules rules = generated_rules(spec_);
    return [=, this](int64_t i) {
      const std::string code = listops_sample(rules, spec_.seed, split, i);
      return cat(listops_text(code), "\t", listops_value(code), "\r\n");
    };
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
  if (spec.path != "listops") {
    fail_usage("'", spec.path, "' is not a generated set of sequences; use listops.");
  }
  if (std::min(spec.train_size, spec.test_size) < 1 ||
      std::max(spec.train_size, spec.test_size) > kMost) {
    fail_usage("A split has 1 to ", kMost, " samples, not ",
               spec.train_size < 1 || spec.train_size > kMost ? spec.train_size : spec.test_size,
               ".");
  }
  const fs::path place = fs::path(out).has_filename() ? fs::path(out) : fs::path(out).parent_path();
  check_new_folder(place);
  check_listops_rules(generated_rules(spec));
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
