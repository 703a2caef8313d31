#include "tost/study/sweep_spec.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace sweep_spec_test {

using nlohmann::ordered_json;

ordered_json whole() {
  return ordered_json::parse(R"({
    "title": "T", "note": "N", "settings": {"epochs": 1, "model_options": {"depth": 2}},
    "variants": [{"name": "a", "settings": {"mixer": "tssa"}}, {"name": "b", "pretrain": false}],
    "grid": {"mixer": ["tssa", "none"], "model_options.heads": [8, 4]},
    "seeds": [0, 7], "pretrain": {"epochs": 2},
    "corruptions": {"kinds": ["blur"], "strengths": [1, 5], "split": "validation"},
    "score": {"split": "test"}, "plot": "curve"})");
}

std::string refusal(const ordered_json& json) {
  return testing::usage_error_of([&] { sweep_spec_from_json(json, "'f.json'"); });
}

std::string refusal_with(const std::string& key, const ordered_json& value) {
  ordered_json json = whole();
  json[key] = value;
  return refusal(json);
}

TEST(SweepSpec, ReadsEveryKey) {
  const SweepSpec spec = sweep_spec_from_json(whole(), "f");
  EXPECT_EQ(spec.title, "T");
  EXPECT_EQ(spec.note, "N");
  EXPECT_EQ(spec.settings.at("model_options").at("depth"), 2);
  ASSERT_EQ(spec.variants.size(), 2u);
  EXPECT_EQ(spec.variants[0].settings.at("mixer"), "tssa");
  EXPECT_TRUE(spec.variants[0].pretrained);
  EXPECT_FALSE(spec.variants[1].pretrained);
  ASSERT_EQ(spec.grid.size(), 2u);
  EXPECT_EQ(spec.grid[0].key, "mixer");  // in the order of the file
  EXPECT_EQ(spec.grid[1].values[1], 4);
  EXPECT_EQ(spec.seeds, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(spec.pretrain->at("epochs"), 2);
  EXPECT_EQ(spec.corruptions->strengths, (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(spec.corruptions->split, "validation");
  EXPECT_EQ(spec.split, "test");
  EXPECT_EQ(spec.plot, SweepPlot::kCurve);
}

TEST(SweepSpec, FillsInWhatIsLeftOut) {
  ordered_json json = {{"seeds", {1}}, {"grid", {{"mixer", {"none"}}}}};
  EXPECT_EQ(sweep_spec_from_json(json, "f").plot, SweepPlot::kDots);
  EXPECT_FALSE(sweep_spec_from_json(json, "f").corruptions);
  json["corruptions"] = ordered_json::object();
  const SweepSpec spec = sweep_spec_from_json(json, "f");
  EXPECT_EQ(spec.plot, SweepPlot::kLines);
  EXPECT_EQ(spec.corruptions->kinds.size(), 4u);
  EXPECT_EQ(spec.corruptions->strengths, (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

TEST(SweepSpec, NamesWhatIsWrong) {
  const auto says = [](const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  says(refusal_with("seed", 1), "unknown key 'seed'");
  says(refusal_with("seed", 1), "Did you mean 'seeds'?");
  says(refusal_with("seeds", "no"), "'seeds' must be a list");
  says(refusal_with("seeds", ordered_json::array()), "at least one entry");
  says(refusal_with("seeds", {1, 1}), "names 1 twice");
  says(refusal_with("seeds", {-1}), "from 0 to");
  says(refusal_with("seeds", {1.5}), "different integers");
  says(refusal_with("seeds", {uint64_t{1} << 63}), "found 9223372036854775808");
  says(refusal_with("title", 3), "'title' must be a text, found 3");
  says(refusal_with("settings", 3), "'settings' must be an object");
  says(refusal_with("grid", {{"mixer", "tssa"}}), "that of 'mixer' is not");
  says(refusal_with("plot", "dot"), "Did you mean 'dots'?");
  says(refusal_with("score", {{"split", "train"}}), "score: split is 'train'");
  says(refusal_with("corruptions", {{"kinds", {"nois"}}}), "Did you mean 'noise'?");
  says(refusal_with("corruptions", {{"strengths", {6}}}), "from 1 to 5");
  says(refusal_with("variants", {{{"name", "../x"}}}), "'../x' cannot be a variant's name");
  says(refusal_with("variants", {{{"name", "a"}}, {{"name", "a"}}}), "two variants named 'a'");
  says(refusal_with("variants", {{{"nam", "a"}}}), "variant 1 has an unknown key 'nam'");
  says(refusal_with("variants", {{{"name", "a"}, {"pretrain", true}}}), "must be false");
  says(refusal({{"seeds", {1}}}), "compares nothing");
  says(refusal({{"grid", {{"mixer", {"none"}}}}}), "has no seeds");
  says(refusal({{"grid", {{"mixer", {"none"}}}}, {"seeds", {1}}, {"plot", "lines"}}),
       "needs corruptions");
}

TEST(SweepSpec, RefusesFilesThatAreNone) {
  const testing::TempDir dir;
  const auto of_text = [&](const std::string& text) -> std::string {
    std::ofstream(dir.path() / "s.json") << text;
    return testing::error_of([&] { read_sweep_file(dir.path() / "s.json"); });
  };
  EXPECT_NE(of_text("[1]").find("not a JSON object"), std::string::npos);
  const std::string broken = of_text("{\"seeds\":\n [1");
  EXPECT_NE(broken.find("is not JSON at line 2, column"), std::string::npos) << broken;
  EXPECT_NE(of_text("{\"seeds\": [1], \"seeds\": [2]}").find("twice in one object"),
            std::string::npos);
  EXPECT_NE(of_text("{\"note\":" + std::string(100'000, '[')).find("nested deeper than 16"),
            std::string::npos);
  EXPECT_EQ(of_text("{\"seeds\": [1], \"grid\": {\"mixer\": [\"none\"]}}"), "");
  EXPECT_EQ(read_sweep_file(dir.path() / "s.json").title, "s");
}

TEST(SweepSpec, NamesAreFolders) {
  for (const char* good : {"a", "heads-8", "tssa_p-16", "0.5", "v1+x"}) {
    EXPECT_TRUE(is_variant_name(good)) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
        std::string("-a"), std::string(81, 'a'), std::string("a\0b", 3), std::string("é")}) {
    EXPECT_FALSE(is_variant_name(bad)) << bad;
  }
}

}  // namespace sweep_spec_test
}  // namespace tost
