#include <gtest/gtest.h>

#include <fstream>

#include "tost/base/error.h"
#include "tost/io/safetensors_test_util.h"
#include "tost/store/inspect.h"
#include "tost/testing/temp_dir.h"

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
  Json inspect() const { return inspect_shards(dir_.path() / "m.safetensors.index.json"); }
  // The one error of a report in which the other shard still counts.
  std::string only_error() const {
    const Json report = inspect();
    EXPECT_EQ(report["shards"], 2);
    EXPECT_EQ(report["tensors"], 1);
    EXPECT_EQ(report["bytes"], 24);
    EXPECT_EQ(report["errors"].size(), 1u);
    return report["errors"].empty() ? "" : report["errors"][0].get<std::string>();
  }

  testing::TempDir dir_;
};

TEST_F(ShardsInspect, JudgesTheWholeModel) {
  const Json report = inspect();
  EXPECT_EQ(report["format"], "safetensors shards");
  EXPECT_EQ(report["tensors"], 2);
  EXPECT_EQ(report["elements"], 24);
  EXPECT_EQ(report["bytes"], 48);
  EXPECT_EQ(report["metadata"], (Json{{"format", "pt"}}));
  EXPECT_TRUE(report["errors"].empty());
  ASSERT_EQ(report["models"].size(), 1u);
  EXPECT_EQ(report["models"][0]["depth"], 2) << "each shard alone has a part of one";
  EXPECT_EQ(report["models"][0]["dim"], 2);
}

TEST_F(ShardsInspect, NamesAMissingShard) {
  fs::remove(dir_.path() / "b.safetensors");
  const std::string error = only_error();
  EXPECT_NE(error.find("b.safetensors' is missing"), std::string::npos) << error;
  EXPECT_NE(error.find("for 1 tensor."), std::string::npos) << error;
}

TEST_F(ShardsInspect, NamesShardsThatAreDamagedOrOfAnotherModel) {
  put("b.safetensors", block(1).substr(0, 100));
  EXPECT_NE(only_error().find("b.safetensors"), std::string::npos);
  put("b.safetensors", block(7));
  EXPECT_NE(only_error().find("do not belong together"), std::string::npos);
  put("b.safetensors", block(1, R"("format":"tf")"));
  EXPECT_NE(only_error().find("other metadata"), std::string::npos);
}

TEST_F(ShardsInspect, RefusesWhatIsNoIndex) {
  put("m.safetensors.index.json", "{}");
  EXPECT_THROW(inspect(), Error);
}

}  // namespace shards_inspect_test
}  // namespace tost
