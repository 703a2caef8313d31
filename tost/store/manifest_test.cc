#include "tost/engine/manifest.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::data_error_of;

json manifest() {
  const json entry{{"bytes", 2}, {"crc32c", "e2a22936"}};
  return {
      {"files",
       {{"model.safetensors", entry}, {"optimizer.safetensors", entry}, {"state.json", entry}}}};
}

TEST(Manifest, GivesEveryFile) {
  const Manifest files = parse_manifest(manifest().dump(), "it");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files.at("state.json"), (ManifestEntry{2, "e2a22936"}));
}

TEST(Manifest, NamesFilesOfItsOwnFolderAlone) {
  for (const char* name : {"../state.json", "/etc/passwd", "a/b", "..", ".", ""}) {
    json changed = manifest();
    changed["files"][name] = changed["files"]["state.json"];
    EXPECT_NE(
        data_error_of([&] { parse_manifest(changed.dump(), "it"); }).find("not a file's name"),
        std::string::npos)
        << name;
  }
}

TEST(Manifest, RefusesWhatIsNotComplete) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    json changed = manifest();
    changed["files"].erase(name);
    EXPECT_NE(data_error_of([&] { parse_manifest(changed.dump(), "it"); }).find(name),
              std::string::npos);
  }
  for (const json& entry :
       {json(), json{{"bytes", 2}}, json{{"bytes", -1}, {"crc32c", "e2a22936"}},
        json{{"bytes", 1e300}, {"crc32c", "e2a22936"}}, json{{"bytes", 2}, {"crc32c", "E2A22936"}},
        json{{"bytes", 2}, {"crc32c", "e2a2293"}},
        json{{"bytes", 2}, {"crc32c", "e2a22936"}, {"more", 1}}}) {
    json changed = manifest();
    changed["files"]["state.json"] = entry;
    EXPECT_NE(data_error_of([&] { parse_manifest(changed.dump(), "it"); }).find("bytes and crc32c"),
              std::string::npos)
        << entry;
  }
  for (const char* text : {"[]", "{}", R"({"files":[]})"}) {
    EXPECT_NE(data_error_of([&] { parse_manifest(text, "it"); }).find("not a checkpoint manifest"),
              std::string::npos);
  }
}

class Checkpoints : public ::testing::Test {
 protected:
  // A checkpoint of three files that hold "ab".
  fs::path make(int64_t step) const {
    const fs::path folder = dir_.path() / checkpoint_name(step);
    make_directories(folder);
    for (const char* file : {kModelFile, kOptimizerFile, kStateFile}) {
      write_file_atomic(folder / file, "ab");
    }
    write_file_atomic(folder / kManifestFile, make_manifest(folder).dump());
    return folder;
  }
  static void damage(const fs::path& folder) { write_file_atomic(folder / kModelFile, "ac"); }
  fs::path find() const { return find_checkpoint(dir_.path(), {kBestPointer, kLatestPointer}); }

  testing::TempDir dir_;
};

TEST_F(Checkpoints, AFileEqualsTheManifestInItsFolder) {
  const fs::path folder = make(1);
  for (const char* file : {kModelFile, kOptimizerFile}) verify_file(folder / file);
  damage(folder);
  EXPECT_NE(data_error_of([&] { verify_file(folder / kModelFile); }).find("is damaged"),
            std::string::npos);
  verify_file(folder / kOptimizerFile);
  write_file_atomic(folder / kModelFile, "abc");
  EXPECT_NE(data_error_of([&] { verify_file(folder / kModelFile); }).find("\"bytes\":3"),
            std::string::npos);
  write_file_atomic(folder / "other.safetensors", "x");
  verify_file(folder / "other.safetensors");
  std::filesystem::remove(folder / kManifestFile);
  verify_file(folder / kModelFile);
}

TEST_F(Checkpoints, AdviceNamesACheckpointThatIsIntact) {
  const fs::path first = make(1), second = make(20), third = make(300);
  damage(third);
  const auto advice = [&] { return data_error_of([&] { verify_file(third / kModelFile); }); };
  EXPECT_NE(advice().find("; use '" + second.string() + "', which is intact."), std::string::npos);
  damage(second);
  EXPECT_NE(advice().find("; use '" + first.string() + "', which is intact."), std::string::npos);
  damage(first);
  EXPECT_NE(advice().find("no other checkpoint that is intact"), std::string::npos) << advice();
  const std::string all = data_error_of([&] { find(); });
  EXPECT_EQ(all.find("use "), std::string::npos) << all;
  EXPECT_NE(all.find("a copy of one is needed or a new run"), std::string::npos) << all;
}

TEST_F(Checkpoints, WithoutPointersTheNewestIntactOneIsFound) {
  EXPECT_EQ(find(), fs::path());
  const fs::path first = make(1), second = make(20), third = make(300);
  EXPECT_EQ(find(), third);
  damage(third);
  EXPECT_EQ(find(), second);
  std::filesystem::remove(second / kManifestFile);
  EXPECT_EQ(find(), first);
  damage(first);
  const std::string error = data_error_of([&] { find(); });
  EXPECT_NE(error.find("All 3 checkpoints"), std::string::npos) << error;
  EXPECT_NE(error.find("the newest one: '" + (third / kModelFile).string()), std::string::npos)
      << error;
}

// What a pointer names is used or refused, never replaced.
TEST_F(Checkpoints, PointersGoFirst) {
  const fs::path first = make(1), second = make(2);
  write_file_atomic(dir_.path() / kLatestPointer, first.filename().string());
  damage(first);
  EXPECT_EQ(find(), first);
  write_file_atomic(dir_.path() / kBestPointer, second.filename().string());
  EXPECT_EQ(find(), second);
}

}  // namespace
}  // namespace tost
