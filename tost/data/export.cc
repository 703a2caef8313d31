#include "tost/data/export.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/data/listops.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

// Makes a folder name from a class name, without separators and a leading dot.
std::string folder_name(const std::string& class_name) {
  std::string name = class_name;
  for (char& c : name) {
    if (c == '/' || c == '\0') c = '_';
  }
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

// Writes the lines [begin, end) of a split's table.
std::vector<std::string> listops_lines(const SequenceSpec& spec, const std::string& split,
                                       int64_t begin, int64_t end) {
  const ListOpsRules rules = listops_rules(spec);
  std::vector<std::string> lines(static_cast<size_t>(end - begin));
  at::parallel_for(begin, end, 8, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const std::string code = listops_sample(rules, spec.seed, split, i);
      lines[static_cast<size_t>(i - begin)] =
          cat(listops_text(code), "\t", listops_value(code), "\r\n");
    }
  });
  return lines;
}

}  // namespace

std::vector<std::string> export_image_folder(const ImageDataset& dataset, const std::string& out,
                                             int64_t count, bool masks,
                                             const ExportOptions& options) {
  check_new_folder(out);
  if (masks && !dataset.has_mask()) fail_usage("This data set has no masks; leave out --masks.");
  const int64_t total = count < 0 ? dataset.size() : std::min(count, dataset.size());
  std::vector<std::string> written;
  for (int64_t i = 0; i < total; ++i) {
    if (options.stop && options.stop()) break;
    const std::string label = folder_name(dataset.classes()[static_cast<size_t>(dataset.label(i))]);
    const fs::path name = fs::path(label) / format_text("%06lld.png", static_cast<long long>(i));
    const auto write = [&](const fs::path& path, const Image& image) {
      make_directories(path.parent_path());
      write_png(path.string(), image);
    };
    write(fs::path(out) / name, dataset.image(i));
    if (masks) write(fs::path(out + "-masks") / name, dataset.mask(i));
    written.push_back((fs::path(out) / name).string());
    if (options.progress) options.progress(i + 1, total);
  }
  return written;
}

SequenceExport export_listops(const SequenceSpec& spec, const std::string& out,
                              const ExportOptions& options) {
  constexpr int64_t kBatch = 200;  // samples between two calls of `stop`
  check_sequence_spec(spec);
  check_listops_rules(listops_rules(spec));
  NewFolder folder(out);
  SequenceExport result;
  for (const auto& [split, name] :
       {std::pair{"train", "train"}, {"validation", "val"}, {"test", "test"}}) {
    OutputFile file(folder.path() / cat("basic_", name, ".tsv"));
    file.write("Source\tTarget\r\n");
    const int64_t size = generated_size(spec, split);
    for (int64_t begin = 0; begin < size; begin += kBatch) {
      if (options.stop && options.stop()) return {};
      for (const auto& line : listops_lines(spec, split, begin, std::min(begin + kBatch, size))) {
        file.write(line);
        result.bytes += std::ssize(line);
        ++result.samples;
      }
      if (options.progress) {
        options.progress(result.samples, spec.train_size + 2 * spec.test_size);
      }
    }
    file.sync();
    file.close();
  }
  folder.finish();
  return result;
}

}  // namespace tost
