#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/inspect.h"
#include "tost/io/safetensors_test_util.h"

namespace tost {
namespace shards_inspect_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Two blocks of a classifier, one in each shard.
class ShardsInspect : public ::testing::Test {
 protected:
  void SetUp() override {
    put("a.safetensors", block(0));
    put("b.safetensors", block(1));
    put("m.safetensors.index.json",
        R"({"metadata":{},"weight_map":{"blocks.0.attn.qkv.weight":"a.safetensors",)"
        R"("blocks.1.attn.qkv.weight":"b.safetensors"}})");
  }
  static std::string block(int i, const std::string& metadata = R"("format":"pt")") {
    return testing::make_file(R"({"__metadata__":{)" + metadata + R"(},"blocks.)" +
                                  std::to_string(i) +
                                  R"(.attn.qkv.weight":{"dtype":"F16","shape":[6,2],)"
                                  R"("data_offsets":[0,24]}})",
                              24);
  }
  void put(const char* name, const std::string& bytes) const {
    std::ofstream(dir_.path() / name, std::ios::binary) << bytes;
  }
  fs::path index() const { return dir_.path() / "m.safetensors.index.json"; }
  std::string refused() const {
    return testing::data_error_of([&] { inspect(index(), {}); });
  }

  testing::TempDir dir_;
};

TEST_F(ShardsInspect, ReportsTheWholeModel) {
  const Json report = inspect(index(), {.statistics = true});
  EXPECT_EQ(report["format"], "safetensors shards");
  EXPECT_EQ(report["shards"], 2);
  EXPECT_EQ(report["tensors"].size(), 2u);
  EXPECT_EQ(report["tensors"][1]["max"], 0.0);
  EXPECT_EQ(report["elements"], 24);
  EXPECT_EQ(report["bytes"], fs::file_size(dir_.path() / "a.safetensors") +
                                 fs::file_size(dir_.path() / "b.safetensors"));
  EXPECT_EQ(report["metadata"], (Json{{"format", "pt"}}));
  ASSERT_EQ(report["models"].size(), 1u);
  EXPECT_EQ(report["models"][0]["depth"], 2) << "each shard holds a part of one";
  EXPECT_EQ(report["models"][0]["dim"], 2);
}

TEST_F(ShardsInspect, AFolderReportsItsShardsAsOne) {
  fs::rename(index(), dir_.path() / "model.safetensors.index.json");
  put("c.safetensors", block(0));
  const Json files = inspect(dir_.path(), {})["files"];
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0]["shards"], 2);
  EXPECT_EQ(files[1]["tensors"].size(), 1u);
}

TEST_F(ShardsInspect, NamesAMissingShard) {
  fs::remove(dir_.path() / "b.safetensors");
  EXPECT_NE(refused().find("b.safetensors"), std::string::npos) << refused();
}

TEST_F(ShardsInspect, NamesShardsThatAreDamagedOrOfAnotherModel) {
  put("b.safetensors", block(1).substr(0, 100));
  EXPECT_NE(refused().find("b.safetensors"), std::string::npos);
  put("b.safetensors", block(7));
  EXPECT_NE(refused().find("do not belong together"), std::string::npos);
  put("b.safetensors", block(1, R"("format":"tf")"));
  EXPECT_NE(refused().find("other metadata"), std::string::npos);
}

TEST_F(ShardsInspect, RefusesWhatIsNoIndex) {
  put("m.safetensors.index.json", "{}");
  EXPECT_NE(refused().find("weight_map"), std::string::npos);
}

}  // namespace shards_inspect_test
}  // namespace tost
