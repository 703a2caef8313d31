#include "tost/kinds/language/explain_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tost/kinds/language/eval_test_util.h"
#include "tost/ops/coding_rate.h"

namespace tost {
namespace {

using nlohmann::json;

// Bytes; a block of 12, two layers, two heads.
struct Fixture {
  LoadedLanguage language = testing::tiny_language("tssa", "none");
  TextExplainOptions options;

  Fixture() {
    options.samples = 3;
    options.data = "it";
    options.held_split = "validation";
    options.held = std::make_shared<TokenSource>(testing::source_of(testing::some_ids(90)));
  }
  Passage passage(const std::string& text) const {
    return passage_of_text(language.info, text, "--text", 400);
  }
  TextReport explain(const std::string& text) const {
    return explain_text(language, passage(text), options).value();
  }
};

TEST(TextReport, HasEveryNumber) {
  Fixture setup;
  setup.options.bound = true;
  setup.options.train = setup.options.held;
  const auto report = setup.explain("a <b> & \n\x01");
  const json numbers = to_json(report);
  EXPECT_EQ(numbers["passage"]["tokens"][1], "·");
  EXPECT_EQ(numbers["layers"].size(), 2u);
  EXPECT_EQ(numbers["splits"].size(), 2u);
  EXPECT_EQ(numbers["splits"][0]["layers"][0]["bound"].size(), 2u);
  EXPECT_EQ(numbers["layers"][0]["subspaces"]["overlap"][0][0], 1);
  EXPECT_EQ(numbers["passage"]["ids"].size(), 10u);
  EXPECT_EQ(numbers["tokenizer"]["kind"], "bytes");
}

TEST(TextReport, ObjectivesOnlyOfStepsThatDescendOnThem) {
  Fixture setup;
  setup.options.bound = true;
  auto report = setup.explain("abcd");
  const json step = to_json(report)["splits"][0]["layers"][0]["objective"];
  EXPECT_NE(step["before"]["mean"], step["stepped"]["mean"]);

  setup.language.model = testing::tiny_model("means", "none");
  setup.language.info.config = setup.language.model->config();
  report = setup.explain("abcd");
  EXPECT_FALSE(to_json(report)["layers"][0]["descends_on_bound"]);
  const json layer = to_json(report)["splits"][0]["layers"][0];
  EXPECT_EQ(layer["bound"].size(), 2u);
  EXPECT_FALSE(layer.contains("objective"));
}

TEST(TextReport, CorrelationMatricesAreThoseOfTheChosen) {
  Fixture setup;
  setup.options.layers = {2};
  setup.options.heads = {2};
  const auto report = setup.explain("abcd");
  const json layers = to_json(report)["splits"][0]["layers"];
  EXPECT_FALSE(layers[0]["correlation"].contains("matrices"));
  const json matrices = layers[1]["correlation"]["matrices"];
  ASSERT_EQ(matrices.size(), 1u);
  EXPECT_EQ(matrices[0]["head"], 2);
  ASSERT_EQ(matrices[0]["absolute"].size(), 8u);
  EXPECT_EQ(matrices[0]["absolute"][3][3], 1);
  const auto& r = report.splits[0].statistics.rates[1].correlations[1];
  EXPECT_NEAR(matrices[0]["absolute"][0][5].get<double>(), r[0][5].item<double>(), 1e-6);
}

TEST(TextReport, GatesByTokenAndTheirMeans) {
  Fixture setup;
  auto config = language_preset("tost_means_char");
  config.vocab = setup.language.info.config.vocab;
  config.block = 12;
  config.dim = 16;
  config.depth = 2;
  config.heads = 2;
  setup.language.model = make_language_model(config);
  setup.language.info.config = config;
  const auto report = setup.explain("abcd");
  const json numbers = to_json(report);
  EXPECT_EQ(numbers["layers"][0]["gate"].size(), 2u);
  EXPECT_NEAR(numbers["layers"][0]["gate"][1][0].get<double>(),
              report.trace.layers[0].gate[0][1][0].item<double>(), 1e-6);
}

TEST(TextReport, RatesAreThoseOfTheWindows) {
  Fixture setup;
  const auto report = setup.explain("ab");
  const auto& statistics = report.splits.at(0).statistics;
  double input = 0, norm = 0;
  for (int64_t i = 0; i < 3; ++i) {
    LanguageTrace inside;
    const auto ids = window_ids(*setup.options.held, {.count = 3}, statistics.length, i);
    trace_text(*setup.language.model, ids, &inside);
    const auto& block = inside.blocks[1];
    input +=
        compression_bound(unit_heads(block.mixer.w, 2), block.mixer.pi, 8 / 0.01).item<double>() /
        3;
    norm += block.output.norm(2, 2).mean().item<double>() / 3;
  }
  EXPECT_NEAR(statistics.rates[1].rate_input.mean, input, 1e-6);
  EXPECT_LE(input, compression_ceiling(8) + 1e-9);
  EXPECT_NEAR(statistics.rates[1].norms.mean, norm, 1e-3 * norm);
}

TEST(TextReport, OneTokenConstantPassagesAndNoData) {
  Fixture setup;
  setup.options.held = nullptr;
  setup.options.no_data = "There is no data.";
  for (const char* text : {"a", "aaaaaaaaaaaa"}) {
    const auto report = setup.explain(text);
    EXPECT_EQ(to_json(report)["left_out"].back(), "There is no data.") << text;
    EXPECT_TRUE(to_json(report)["splits"].empty());
  }
  EXPECT_TRUE(to_json(setup.explain("a"))["passage"]["loss"].is_null());
}

TEST(TextReport, WeightsThatAreNotFinite) {
  Fixture setup;
  {
    const torch::NoGradGuard no_grad;
    setup.language.model->parameters()[0].fill_(std::nan(""));
  }
  const auto report = setup.explain("abc");
  EXPECT_TRUE(to_json(report)["passage"]["loss"].is_null());
}

TEST(TextReport, MixersWithoutGroupsAndHybrids) {
  Fixture setup;
  setup.language.model = testing::tiny_model("softmax", "none");
  setup.language.info.config = setup.language.model->config();
  auto report = setup.explain("abcd");
  EXPECT_NE(report.left_out.at(0).find("1 (softmax), 2 (softmax)"), std::string::npos);
  EXPECT_TRUE(to_json(report)["layers"][0]["membership"].is_null());

  LanguageConfig config = testing::tiny_model("tssa", "none")->config();
  config.hybrid_every = 2;
  setup.language.model = make_language_model(config);
  setup.language.info.config = config;
  report = setup.explain("abcd");
  EXPECT_NE(report.left_out.at(0).find("No memberships, spectra or rates of layers 2 (softmax)"),
            std::string::npos);
  EXPECT_TRUE(to_json(report)["layers"][0]["membership"].is_array());
}

TEST(TextReport, ChosenLayersHeadsAndStops) {
  Fixture setup;
  setup.options.layers = {2};
  setup.options.heads = {2};
  EXPECT_EQ(to_json(setup.explain("abc"))["chosen_layers"], json({2}));
  setup.options.layers = {3};
  EXPECT_THROW(setup.explain("abc"), Error);
  setup.options.layers = {};
  const std::atomic<bool> stop = true;
  setup.options.stop = &stop;
  EXPECT_FALSE(explain_text(setup.language, setup.passage("abc"), setup.options).has_value());
}

}  // namespace
}  // namespace tost
