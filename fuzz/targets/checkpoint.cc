// The parts of a checkpoint in addition to tensors: its manifest, the state of the loop, and the
// pointer to it.
#include <filesystem>
#include <fstream>

#include "fuzz/targets.h"
#include "tests/testing/temp_dir.h"
#include "tost/engine/manifest.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/train/loop_state.h"

namespace tost::fuzz {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

void try_manifest(std::string_view input) {
  for (const auto& [name, entry] : parse_manifest(input, "fuzz")) {
    require(fs::path(name).filename() == name, "a file of this folder");
    require(entry.bytes >= 0 && entry.crc32c.size() == 8, "a size and a checksum");
  }
}

// Of a checkpoint whose files hold "ab".
void try_folder(std::string_view input) {
  static const testing::TempDir folder;
  static const bool made = [] {
    for (const char* file : {kModelFile, kOptimizerFile, kStateFile})
      put(folder.path() / file, "ab");
    return true;
  }();
  put(folder.path() / kManifestFile, input);
  verify_checkpoint(folder.path());
  const nlohmann::json truth = make_manifest(folder.path());
  require(made && truth["files"].size() == 3, "its files");
  for (const auto& [name, entry] : parse_manifest(input, "fuzz")) {
    require(truth["files"][name]["crc32c"] == entry.crc32c, "only what is there is verified");
  }
}

void try_state(std::string_view input) {
  const LoopState state = loop_state_from_json(parse_json(input, "fuzz"), "fuzz");
  require(state.step >= 0 && state.guards.losses.size() <= kGuardWindow, "possible values");
  const nlohmann::json written = to_json(state);
  require(to_json(loop_state_from_json(written, "fuzz")) == written, "written and read the same");
}

void try_pointer(std::string_view input) {
  static const testing::TempDir folder;
  static const bool made = fs::create_directories(folder.path() / checkpoint_name(12));
  put(folder.path() / kLatestPointer, input);
  const fs::path found = follow_pointer(folder.path(), kLatestPointer);
  require(made && found == folder.path() / checkpoint_name(12), "the one checkpoint there is");
}

}  // namespace

void try_checkpoint(std::string_view input) {
  const unsigned choice = take_choice(input);
  or_refuse([&] {
    switch (choice % 4) {
      case 0:
        return try_manifest(input);
      case 1:
        return try_folder(input);
      case 2:
        return try_state(input);
      default:
        return try_pointer(input);
    }
  });
}

}  // namespace tost::fuzz
