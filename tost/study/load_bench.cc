#include "tost/study/load_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/scratch_folder.h"
#include "tost/bench/timing.h"
#include "tost/kinds/language/file.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

LanguageConfig config_of(const LoadBenchOptions& options) {
  if (options.repeat < 1) fail_usage("repeat is ", options.repeat, "; at least 1 is needed.");
  LanguageConfig config = language_preset(options.model);
  if (options.depth != 0) config.depth = options.depth;
  validate(config);
  return config;
}

using Memory = std::unique_ptr<char, decltype(&std::free)>;

// The fewest calls there can be: the system gives at most 2 GiB at a time.
Memory read_whole(const fs::path& file, int64_t bytes) {
  Memory memory(static_cast<char*>(std::malloc(size_t(bytes))), &std::free);
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  int64_t done = 0;
  for (ssize_t got = 1; fd >= 0 && memory && done < bytes && got > 0;
       done += std::max<ssize_t>(got, 0))
    got = ::read(fd, memory.get() + done, size_t(bytes - done));
  if (fd >= 0) ::close(fd);
  if (done != bytes) fail_data("Cannot read '", file.string(), "'.");
  return memory;
}

void check_loaded(const fs::path& file, const StateDict& written) {
  for (const auto& [name, tensor] : state_dict(*load_language_file(file).model)) {
    if (!torch::equal(tensor, written.at(name)))
      fail_data("'", file.string(), "' gives another tensor '", name, "' than was written.");
  }
}

}  // namespace

std::vector<LoadBenchRow> run_load_bench(const LoadBenchOptions& options) {
  const LanguageConfig config = config_of(options);
  const ScratchFolder folder(options.folder, "name another with --folder");
  const auto model = make_language_model(config);
  const StateDict written = state_dict(*model);
  std::vector<LoadBenchRow> rows(1);
  rows[0].format = "safetensors";
  const auto file_of = [&](const LoadBenchRow& row) {
    return folder.path() / ("model." + row.format);
  };
  save_language_file(file_of(rows[0]), *model, {.config = config, .tokenizer = nullptr});
  // Dropped outside of the times.
  Memory read(nullptr, &std::free);
  LoadedLanguage loaded;
  const auto drop = [&] { read.reset(), loaded = {}; };
  std::vector<Contestant> contestants;
  for (LoadBenchRow& row : rows) {
    const fs::path file = file_of(row);
    check_loaded(file, written);
    row.parameters = parameter_count(*model);
    row.bytes = file_bytes(file);
    contestants.push_back({[&, file] { read = read_whole(file, row.bytes); }, drop});
    contestants.push_back({[&, file] { loaded = load_language_file(file); }, drop});
  }
  const auto times = time_rounds(1, options.repeat, contestants);
  for (size_t f = 0; f < rows.size(); ++f) {
    rows[f].read_ms = median(times[2 * f]);
    rows[f].load_ms = median(times[2 * f + 1]);
  }
  return rows;
}

}  // namespace tost
