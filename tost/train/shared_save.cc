#include "tost/train/shared_save.h"

#include <unistd.h>

#include <thread>

#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/engine/manifest.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr char kProbe[] = ".shared";

// Writes the shard of this process; returns name and manifest entry, null if there is no shard.
nlohmann::json write_shard(const fs::path& folder, const Checkpoint& shard) {
  if (shard.parts.empty()) return nullptr;
  return {{"name", shard.parts[0].file}, {"entry", to_json(write_checkpoint_part(folder, shard))}};
}

Manifest shards_of(const std::vector<std::string>& entries) {
  Manifest shards;
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    const std::string where = cat("the shard of rank ", rank);
    const nlohmann::json shard = parse_json(entries[rank], where);
    if (shard.is_null()) continue;
    const std::string name = shard.at("name");
    shards[name] = manifest_entry(shard.at("entry"), name, where);
  }
  return shards;
}

fs::path save_once(Group& group, const SharedPlace& place, SharedCheckpoint& checkpoint,
                   bool best) {
  const std::string name =
      group.by_first([&] { return place.store->open(checkpoint.whole.step).filename().string(); });
  const fs::path folder = place.directory / name;
  nlohmann::json entry;
  group.together([&] { entry = write_shard(folder, checkpoint.shard); });
  const std::vector<std::string> entries = group.gather_texts(json_text(entry));
  const std::string saved = group.by_first([&] {
    write_file_atomic(folder / kOptimizerIndexFile, checkpoint.index);
    checkpoint.whole.written = shards_of(entries);
    return place.store->save(checkpoint.whole, best).filename().string();
  });
  return place.directory / saved;
}

// Whether a file gets the content within 5 s: shared file systems may show a new file late.
bool file_has(const fs::path& file, const std::string& text) {
  constexpr int kLooks = 50;
  for (int look = 0; look < kLooks; ++look) {
    if (path_exists(file) && read_file(file, 4096) == text) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

}  // namespace

fs::path save_together(Group& group, const SharedPlace& place, SharedCheckpoint& checkpoint,
                       bool best, const std::function<void(const std::string&)>& report) {
  for (size_t attempt = 0;; ++attempt) {
    try {
      return save_once(group, place, checkpoint, best);
    } catch (const Error& error) {
      if (group.broken()) throw;
      if (group.first()) place.store->abandon(checkpoint.whole.step);
      if (attempt == place.pauses.size()) throw;
      report(cat(error.what(), " Trying again."));
    }
    std::this_thread::sleep_for(place.pauses[attempt]);
  }
}

void check_shared_folder(Group& group, const fs::path& run) {
  struct Probe {
    ~Probe() {
      if (!file.empty()) discard(file);
    }
    fs::path file;  // of process 0
  } probe;
  const std::string text = group.by_first([&] {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    const std::string unique = cat(::getpid(), " ", now, "\n");
    probe.file = run / kProbe;
    write_file_atomic(probe.file, unique);
    return unique;
  });
  group.together([&] {
    if (file_has(run / kProbe, text)) return;
    fail_usage("'", (run / kProbe).string(),
               "', which rank 0 wrote, is not there; with shard_optimizer every process writes its "
               "part of a checkpoint, so that the run folder must lie on a file system that all "
               "machines share: choose such a folder with --out, or leave out --shard-optimizer.");
  });
}

}  // namespace tost
