#include "tost/kinds/language/recall_eval.h"

#include <gtest/gtest.h>

#include "tost/testing/errors.h"

namespace tost {
namespace {

using torch::Tensor;

LanguageConfig tiny_recall(const std::string& mixer = "tssa") {
  LanguageConfig c;
  c.mixer = mixer;
  c.vocab = 257;
  c.block = 64;
  c.dim = 16;
  c.depth = 2;
  c.heads = 2;
  c.layer_scale = 1;
  c.positions = "none";
  return c;
}

// Two samples with three and one question.
RecallBatch by_hand() {
  RecallBatch batch;
  batch.ids = torch::zeros({2, 4}, torch::kInt64);
  batch.targets = torch::full({2, 4}, -1, torch::kInt64);
  for (int64_t t : {0, 1, 3}) batch.targets[0][t] = 7;
  batch.targets[1][2] = 7;
  batch.distances = {5, 1, 9, 3};
  return batch;
}

TEST(RecallTally, CountsByHand) {
  RecallTally tally({.length = 4, .pairs = 3});
  const TokenScores scores{torch::tensor({1.f, 2.f, 3.f, 4.f}),
                           torch::tensor({true, false, true, true})};
  tally.add(by_hand(), scores);
  tally.add(by_hand(), {scores.loss, torch::ones({4}, torch::kBool)});
  const RecallScores s = tally.scores();
  EXPECT_EQ(s.samples, 4);
  EXPECT_EQ(s.tokens, 8);
  EXPECT_DOUBLE_EQ(s.accuracy, 7.0 / 8);
  EXPECT_DOUBLE_EQ(s.exact, 3.0 / 4);
  EXPECT_DOUBLE_EQ(s.loss, 2.5);
  ASSERT_EQ(s.distances.size(), 4u);
  const std::vector<std::pair<int64_t, double>> wanted{{1, 0.5}, {3, 1}, {5, 1}, {9, 1}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(s.distances[i].low, wanted[i].first);
    EXPECT_EQ(s.distances[i].high, wanted[i].first);
    EXPECT_EQ(s.distances[i].tokens, 2);
    EXPECT_DOUBLE_EQ(s.distances[i].accuracy, wanted[i].second) << i;
  }
}

TEST(RecallTally, EqualDistancesStayTogether) {
  RecallTally tally({});
  RecallBatch batch = by_hand();
  batch.distances = {4, 4, 4, 8};
  tally.add(batch, {torch::zeros({4}), torch::tensor({true, false, true, false})});
  const auto parts = tally.scores().distances;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].tokens, 3);
  EXPECT_DOUBLE_EQ(parts[0].accuracy, 2.0 / 3);
  EXPECT_EQ(parts[1].low, 8);
}

TEST(RecallTotals, WeighCasesEqually) {
  const RecallTotals totals =
      recall_totals({{.tokens = 10, .accuracy = 1, .exact = 1, .loss = 0},
                     {.tokens = 90, .accuracy = 0.5, .exact = 0, .loss = 2}});
  EXPECT_DOUBLE_EQ(totals.accuracy, 0.75);
  EXPECT_DOUBLE_EQ(totals.exact, 0.5);
  EXPECT_DOUBLE_EQ(totals.loss, 1);
  EXPECT_EQ(totals.tokens, 100);
}

// Against scores made token by token.
TEST(RecallEval, MatchesTheLogits) {
  torch::manual_seed(0);
  const auto model = make_language_model(tiny_recall());
  const auto source = open_recall({.vocab = 16});
  const RecallCase size{.length = 32, .pairs = 4};
  const auto scores = evaluate_recall(*model, *source, {size}, {.samples = 5, .batch = 2});
  ASSERT_TRUE(scores);
  double loss = 0;
  int64_t right = 0;
  const torch::NoGradGuard no_grad;
  model->eval();
  for (int64_t i = 0; i < 5; ++i) {
    const RecallBatch batch = make_recall_batch(*source, size, "test", i, 1);
    const Tensor logits = model->forward(batch.ids)[0];
    for (int64_t t = 0; t < 32; ++t) {
      const int64_t target = batch.targets[0][t].item<int64_t>();
      if (target == -1) continue;
      loss -= torch::log_softmax(logits[t], 0)[target].item<double>();
      right += logits[t].argmax().item<int64_t>() == target;
    }
  }
  EXPECT_EQ((*scores)[0].tokens, 20);
  EXPECT_NEAR((*scores)[0].loss, loss / 20, 1e-5);
  EXPECT_DOUBLE_EQ((*scores)[0].accuracy, double(right) / 20);
}

// A sample beyond the piece is read with a state; the answers are those of one reading.
TEST(RecallEval, PiecesGiveWhatTheWholeGives) {
  torch::manual_seed(0);
  auto config = tiny_recall();
  config.hybrid_every = 2;
  config.hybrid_mixer = "delta";
  config.options.conv = 4;
  const auto model = make_language_model(config);
  const auto source = open_recall({.task = "needle"});
  const RecallCase size{.length = 5000, .depth = 0.3};
  const auto scores = evaluate_recall(*model, *source, {size}, {.samples = 1});
  const RecallBatch batch = make_recall_batch(*source, size, "test", 0, 1);
  model->eval();
  const torch::NoGradGuard no_grad;
  const TokenScores whole = score_targets(*model, model->hidden(batch.ids), batch.targets);
  EXPECT_NEAR((*scores)[0].loss, whole.loss.mean().item<double>(), 1e-4);
  EXPECT_EQ((*scores)[0].tokens, 5);
}

TEST(RecallEval, RefusesWhatDoesNotFit) {
  auto config = tiny_recall();
  config.positions = "learned";
  const auto model = make_language_model(config);
  const auto error_of = [&](const RecallSpec& spec, const RecallCase& size,
                            const RecallEvalOptions& options = {}) -> std::string {
    return testing::usage_error_of(
        [&] { evaluate_recall(*model, *open_recall(spec), {size}, options); });
  };
  EXPECT_NE(error_of({}, {.length = 128}).find("learned positions"), std::string::npos);
  EXPECT_NE(error_of({.vocab = 300}, {}).find("300"), std::string::npos);
  EXPECT_NE(error_of({}, {}, {.samples = 0}), "");
  EXPECT_NE(error_of({}, {.length = 8}), "");
  EXPECT_EQ(error_of({}, {}, {.samples = 1}), "");
}

TEST(RecallMemory, IsRefusedBeforeItIsTaken) {
  const auto error_of = [](const LanguageConfig& c, int64_t length, int64_t samples, bool training,
                           int64_t available) -> std::string {
    return testing::usage_error_of(
        [&] { check_recall_memory(c, length, samples, training, available); });
  };
  const int64_t gib = int64_t{1} << 30, million = 1 << 20;
  // Keys and values of softmax: 2 blocks x 2 x 16 floats a token, and 16 bytes of the token.
  EXPECT_EQ(error_of(tiny_recall("softmax"), million, 1, false, 272 << 20), "");
  const auto refused = error_of(tiny_recall("softmax"), million, 1, false, (272 << 20) - 1);
  EXPECT_NE(refused.find("at least 272.0 MiB"), std::string::npos) << refused;
  EXPECT_EQ(error_of(tiny_recall("tssa"), million, 1, false, 272 << 20), "");
  auto windowed = tiny_recall("softmax");
  windowed.options.window = 128;
  EXPECT_EQ(error_of(windowed, million, 1, false, 20 << 20), "");
  EXPECT_NE(error_of(tiny_recall("tssa"), million, 4096, true, 100 * gib).find("a smaller batch"),
            std::string::npos);
  EXPECT_EQ(error_of(tiny_recall("tssa"), 512, 32, true, gib), "");
  EXPECT_EQ(error_of(tiny_recall("tssa"), million, 4096, true, 0), "");
  EXPECT_NE(error_of(tiny_recall("tssa"), INT64_MAX, INT64_MAX, true, INT64_MAX), "");
}

// The cache of softmax grows with the tokens, the sums of TSSA do not; read whole or in pieces.
TEST(RecallEval, TellsWhatIsRemembered) {
  const auto source = open_recall({});
  for (const char* mixer : {"tssa", "softmax"}) {
    const auto model = make_language_model(tiny_recall(mixer));
    const auto scores = evaluate_recall(*model, *source, {{.length = 64}, {.length = 4096}},
                                        {.samples = 2, .batch = 2});
    const int64_t at_64 = (*scores)[0].state_bytes, at_4096 = (*scores)[1].state_bytes;
    EXPECT_GT(at_64, 0);
    if (mixer == std::string("tssa")) {
      EXPECT_EQ(at_4096, at_64);
    } else {  // with room for as many tokens again at most
      EXPECT_GE(at_4096, 64 * at_64);
      EXPECT_LE(at_4096, 128 * at_64);
    }
  }
}

TEST(RecallEval, StopsWhenAsked) {
  const auto model = make_language_model(tiny_recall());
  const std::atomic<bool> stop = true;
  RecallEvalOptions options;
  options.stop = &stop;
  EXPECT_FALSE(evaluate_recall(*model, *open_recall({}), {{}}, options));
}

}  // namespace
}  // namespace tost
