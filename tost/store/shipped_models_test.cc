#include "tost/engine/shipped_models.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/store/weights_file.h"

namespace tost {
namespace {

using nlohmann::json;
using testing::data_error_of;

// A folder of one model that TOST_MODELS names, until the test ends.
class ShippedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file_atomic(dir_.path() / "tiny.safetensors", "ab");
    write_cards({{"name", "tiny"},
                 {"about", "a"},
                 {"data", "d"},
                 {"licence", "l"},
                 {"score", "s"},
                 {"file", {{"bytes", 2}, {"crc32c", "e2a22936"}}}});
    setenv("TOST_MODELS", dir_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("TOST_MODELS"); }
  void write_cards(const json& card) {
    write_file_atomic(dir_.path() / kCardsFile, json{{"models", json::array({card})}}.dump());
  }

  testing::TempDir dir_;
};

TEST_F(ShippedModels, NamesAreReplacedByFiles) {
  EXPECT_EQ(shipped_names(), std::vector<std::string>{"tiny"});
  EXPECT_EQ(model_path("tiny"), (dir_.path() / "tiny.safetensors").string());
  for (const char* other : {"", "tin", "./tiny", "tiny.safetensors", "a/tiny", "."}) {
    EXPECT_EQ(model_path(other), other);
  }
}

TEST_F(ShippedModels, FilesAreCheckedBeforeUse) {
  write_file_atomic(dir_.path() / "tiny.safetensors", "ac");
  const std::string message = data_error_of([] { model_path("tiny"); });
  EXPECT_NE(message.find("tiny.safetensors' is damaged"), std::string::npos) << message;
}

TEST_F(ShippedModels, NamesLeadToNoOtherFolder) {
  for (const char* name : {"../tiny", "a.b", "", "Tiny"}) {
    write_cards({{"name", name}});
    EXPECT_NE(data_error_of([] { shipped_models(); }).find("lower-case"), std::string::npos)
        << name;
  }
}

TEST_F(ShippedModels, UnknownNamesGetTheKnownOnes) {
  const std::string message = data_error_of([] { find_model_file("tiy"); });
  EXPECT_NE(message.find("(tiny) is expected. Did you mean 'tiny'?"), std::string::npos) << message;
}

TEST_F(ShippedModels, AFolderThatHidesOneIsNamed) {
  const auto before = std::filesystem::current_path();
  const testing::TempDir here;
  std::filesystem::current_path(here.path());
  std::filesystem::create_directory("tiny");
  std::filesystem::create_directory("big");
  const std::string hidden = data_error_of([] { find_model_file(model_path("tiny")); });
  const std::string other = data_error_of([] { find_model_file(model_path("big")); });
  std::filesystem::current_path(before);
  EXPECT_NE(hidden.find("hides the shipped model tiny; "), std::string::npos) << hidden;
  EXPECT_NE(other.find("'big' holds no checkpoint"), std::string::npos) << other;
}

TEST(NoShippedModels, EveryTextIsAPath) {
  EXPECT_TRUE(shipped_models().empty());  // there is no folder of them next to this test
  EXPECT_EQ(model_path("shapes"), "shapes");
}

}  // namespace
}  // namespace tost
