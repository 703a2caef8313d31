#include "tost/io/safetensors_index.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::data_error_of;

std::string index_refusal(const std::string& text) {
  return data_error_of([&] { parse_safetensors_index(text, "'i.json'"); });
}

std::string mapping(const std::string& shard) {
  return R"({"weight_map":{"a":")" + shard + "\"}}";
}

TEST(SafetensorsIndex, SortsTensorsByShard) {
  const auto index = parse_safetensors_index(
      R"({"metadata":{"total_size":12},"weight_map":{"b":"y.safetensors","a":"x.safetensors",
          "c":"x.safetensors"}})",
      "it");
  const std::map<std::string, std::set<std::string>> wanted{{"x.safetensors", {"a", "c"}},
                                                            {"y.safetensors", {"b"}}};
  EXPECT_EQ(index.shards, wanted);
  EXPECT_EQ(index_refusal(mapping("model-00001-of-00002.safetensors")), "");
}

TEST(SafetensorsIndex, RefusesWhatIsNone) {
  const std::string x = R"("x.safetensors")";
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not JSON"},
           {"[]", "not a JSON object"},
           {"{}", "lacks 'weight_map'"},
           {R"({"weight_map":{}})", "lacks 'weight_map'"},
           {R"({"weight_map":[)" + x + "]}", "lacks 'weight_map'"},
           {R"({"weight_map":{"a":1}})", "the file of tensor 'a' is not a string"},
           {R"({"weight_map":{"a":null}})", "is not a string"},
           {R"({"weight_map":{"a":[)" + x + "]}}", "is not a string"},
           {R"({"weight_map":{"a":)" + x + R"(,"a":"y.safetensors"}})", "the key 'a' twice"},
           {R"({"weight_map":{"a":)" + x + R"(},"weight_map":{}})", "'weight_map' twice"},
           {R"({"weight_map":{"a":)" + x + R"(},"more":1})", "unknown key 'more'"},
           {R"({"weight_map":{"a":)" + x + R"(},"metadata":[]})", "'metadata' is not an object"},
           {std::string(100, '['), "nested deeper"}}) {
    EXPECT_NE(index_refusal(text).find(part), std::string::npos) << index_refusal(text);
    EXPECT_NE(index_refusal(text).find("'i.json'"), std::string::npos) << text;
  }
}

TEST(SafetensorsIndex, ShardsAreInItsFolder) {
  for (const char* outside : {"../x.safetensors", "/tmp/x.safetensors", "a/x.safetensors",
                              "a\\\\x.safetensors", "..", ".", "", ".safetensors", ".x.safetensors",
                              "x.safetensors/", "x.bin", "x.safetensors\\u0000", "x\\n.safetensors",
                              "C:x.safetensors", "\\u202e.safetensors", "~x.safetensors"}) {
    EXPECT_NE(index_refusal(mapping(outside)).find("not the plain name"), std::string::npos)
        << outside;
  }
  EXPECT_NE(index_refusal(mapping(std::string(256, 'x') + ".safetensors")), "");
}

class Shards : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return dir_.path() / name; }
  fs::path index() const { return path(kSafetensorsIndexFile); }
  void write_index(const std::string& text) const { write_file_atomic(index(), text); }

  testing::TempDir dir_;
};

TEST_F(Shards, ComeBackAsOne) {
  std::map<std::string, torch::Tensor> tensors;
  SafetensorsIndex all;
  for (int i = 0; i < 7; ++i) {
    const std::string name = cat("t", i), shard = cat("x", i % 3, ".safetensors");
    tensors[name] = torch::full({3, i}, i, torch::kFloat);
    all.shards[shard].insert(name);
  }
  for (const auto& [shard, names] : all.shards) {
    std::map<std::string, torch::Tensor> part;
    for (const std::string& name : names) part[name] = tensors.at(name);
    save_safetensors(path(shard), part, {{"format", "pt"}});
  }
  write_index(safetensors_index_text(all, 0));
  const auto file = load_safetensors(index());
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(torch::equal(file.tensors.at(name), tensor)) << name;
  }
}

TEST_F(Shards, ThatDoNotBelongTogetherAreRefused) {
  const auto one = torch::ones({2});
  save_safetensors(path("x.safetensors"), {{"a", one}, {"b", one}}, {{"k", "1"}});
  save_safetensors(path("y.safetensors"), {{"c", one}}, {{"k", "2"}});
  const auto load = [&](const std::string& map) {
    write_index("{\"weight_map\":" + map + "}");
    return data_error_of([&] { load_safetensors(index()); });
  };
  const std::string x = R"("x.safetensors")", y = R"("y.safetensors")";
  EXPECT_EQ(load(R"({"a":)" + x + R"(,"b":)" + x + "}"), "");
  EXPECT_NE(load(R"({"a":)" + x + "}").find("holds the tensor 'b', which"), std::string::npos);
  EXPECT_NE(load(R"({"a":)" + x + R"(,"b":)" + y + "}").find("holds the tensor 'b'"),
            std::string::npos);
  EXPECT_NE(load(R"({"c":)" + y + R"(,"d":)" + y + "}").find("does not hold it"),
            std::string::npos);
  EXPECT_NE(load(R"({"c":"z.safetensors"})").find("z.safetensors"), std::string::npos);
  EXPECT_NE(load(R"({"a":)" + x + R"(,"b":)" + x + R"(,"c":)" + y + "}").find("other metadata"),
            std::string::npos);
}

}  // namespace
}  // namespace tost
