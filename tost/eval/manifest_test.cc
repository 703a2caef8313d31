#include "tost/eval/manifest.h"

#include <gtest/gtest.h>

#include "tost/testing/errors.h"

namespace tost {
namespace {

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
    EXPECT_NE(data_error_of([&] { parse_manifest(changed.dump(), "it"); }).find("no file's name"),
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

}  // namespace
}  // namespace tost
