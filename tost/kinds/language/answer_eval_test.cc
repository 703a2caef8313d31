#include "tost/kinds/language/answer_eval.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/data/token_task_test_util.h"

namespace tost {
namespace {

using torch::Tensor;

LanguageConfig tiny_model(const std::string& mixer = "tssa") {
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

// A task of these lengths, removed with the object.
struct Task {
  explicit Task(const std::vector<int64_t>& lengths, int64_t vocabulary = 16, int64_t samples = 5,
                std::map<std::string, std::string> metadata = {}) {
    testing::write_token_task(dir.path(), lengths, vocabulary, samples, std::move(metadata));
  }
  TokenTaskData data() const { return {dir.path(), "test"}; }
  testing::TempDir dir;
};

TEST(AnswerTally, CountsByHand) {
  Tensor targets = torch::full({2, 4}, -1, torch::kInt64);
  for (int64_t t : {0, 1, 3}) targets[0][t] = 7;
  targets[1][2] = 7;
  AnswerTally tally;
  const TokenScores scores{{1, 2, 3, 4}, {true, false, true, true}};
  tally.add(targets, scores);
  tally.add(targets, {scores.loss, std::vector<char>(4, true)});
  const AnswerScores s = tally.scores();
  EXPECT_EQ(s.samples, 4);
  EXPECT_EQ(s.tokens, 8);
  EXPECT_DOUBLE_EQ(s.accuracy, 7.0 / 8);
  EXPECT_DOUBLE_EQ(s.exact, 3.0 / 4);
  EXPECT_DOUBLE_EQ(s.loss, 2.5);
}

TEST(AnswerTotals, WeighGroupsEqually) {
  const auto totals = to_json(std::vector<AnswerScores>{
      {.group = "a", .tokens = 10, .accuracy = 1, .exact = 1, .loss = 0},
      {.group = "b", .tokens = 90, .accuracy = 0.5, .exact = 0, .loss = 2}});
  EXPECT_EQ(totals["accuracy"], 0.75);
  EXPECT_EQ(totals["exact"], 0.5);
  EXPECT_EQ(totals["loss"], 1);
  EXPECT_EQ(totals["tokens"], 100);
  EXPECT_EQ(totals["groups"][1]["group"], "b");
}

// Against scores made token by token.
TEST(AnswerEval, MatchesTheLogits) {
  torch::manual_seed(0);
  const auto model = make_language_model(tiny_model());
  const Task task({32});
  const TokenTaskData data = task.data();
  const auto scores = evaluate_answers(*model, data, {.batch = 2});
  ASSERT_TRUE(scores);
  double loss = 0;
  int64_t right = 0;
  const torch::NoGradGuard no_grad;
  model->eval();
  for (int64_t i = 0; i < 5; ++i) {
    const TokenTaskBatch batch = data.batch(0, {i});
    const Tensor logits = model->forward(batch.ids)[0];
    const int64_t target = batch.targets[0][31].item<int64_t>();
    loss -= torch::log_softmax(logits[31], 0)[target].item<double>();
    right += logits[31].argmax().item<int64_t>() == target;
  }
  EXPECT_EQ((*scores)[0].tokens, 5);
  EXPECT_NEAR((*scores)[0].loss, loss / 5, 1e-5);
  EXPECT_DOUBLE_EQ((*scores)[0].accuracy, double(right) / 5);
}

// A sample beyond the piece is read with a state; the answers are those of one reading.
TEST(AnswerEval, PiecesGiveWhatTheWholeGives) {
  torch::manual_seed(0);
  auto config = tiny_model();
  config.hybrid_every = 2;
  config.hybrid_mixer = "delta";
  config.options.conv = 4;
  const auto model = make_language_model(config);
  const Task task({5000}, 200, 1);
  const TokenTaskData data = task.data();
  const auto scores = evaluate_answers(*model, data);
  const TokenTaskBatch batch = data.batch(0, {0});
  const auto whole = model->score(batch.ids.const_data_ptr<int64_t>(),
                                  batch.targets.const_data_ptr<int64_t>(), 1, 5000, nullptr);
  EXPECT_NEAR((*scores)[0].loss, torch::tensor(whole.loss).mean().item<double>(), 1e-4);
}

TEST(AnswerEval, RefusesWhatDoesNotFit) {
  auto config = tiny_model();
  config.positions = "learned";
  const auto model = make_language_model(config);
  const auto error_of = [&](const Task& task, const AnswerEvalOptions& options = {}) {
    return testing::usage_error_of([&] { evaluate_answers(*model, task.data(), options); });
  };
  EXPECT_TRUE(testing::mentions(error_of(Task({128})), "learned positions"));
  EXPECT_TRUE(testing::mentions(error_of(Task({16}, 300)), "300"));
  EXPECT_TRUE(testing::mentions(error_of(Task({16}, 16, 2, {{"restores", "true"}})),
                                "needs an auto-encoder"));
  EXPECT_NE(error_of(Task({16}), {.samples = -1}), "");
  EXPECT_EQ(error_of(Task({16}), {.samples = 1}), "");
}

TEST(AnswerMemory, IsRefusedBeforeItIsTaken) {
  const auto error_of = [](const LanguageConfig& c, int64_t length, int64_t samples, bool training,
                           int64_t available) -> std::string {
    return testing::usage_error_of(
        [&] { check_answer_memory(c, length, samples, training, available); });
  };
  const int64_t gib = int64_t{1} << 30, million = 1 << 20;
  // Keys and values of softmax: 2 blocks x 2 x 16 floats a token, and 16 bytes of the token.
  EXPECT_EQ(error_of(tiny_model("softmax"), million, 1, false, 272 << 20), "");
  const auto refused = error_of(tiny_model("softmax"), million, 1, false, (272 << 20) - 1);
  EXPECT_NE(refused.find("at least 272.0 MiB"), std::string::npos) << refused;
  EXPECT_EQ(error_of(tiny_model("tssa"), million, 1, false, 272 << 20), "");
  auto windowed = tiny_model("softmax");
  windowed.options.window = 128;
  EXPECT_EQ(error_of(windowed, million, 1, false, 20 << 20), "");
  EXPECT_NE(error_of(tiny_model("tssa"), million, 4096, true, 100 * gib).find("a smaller batch"),
            std::string::npos);
  EXPECT_EQ(error_of(tiny_model("tssa"), 512, 32, true, gib), "");
  EXPECT_EQ(error_of(tiny_model("tssa"), million, 4096, true, 0), "");
  EXPECT_NE(error_of(tiny_model("tssa"), INT64_MAX, INT64_MAX, true, INT64_MAX), "");
}

// The cache of softmax grows with the tokens, the sums of TSSA do not; read whole or in pieces.
TEST(AnswerEval, ReportsTheMemoryOfTheState) {
  const Task task({64, 4096}, 16, 2);
  for (const char* mixer : {"tssa", "softmax"}) {
    const auto model = make_language_model(tiny_model(mixer));
    const auto scores = evaluate_answers(*model, task.data(), {.batch = 2});
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

TEST(AnswerEval, StopsOnRequest) {
  const auto model = make_language_model(tiny_model());
  const std::atomic<bool> stop = true;
  AnswerEvalOptions options;
  options.stop = &stop;
  EXPECT_FALSE(evaluate_answers(*model, Task({16}).data(), options));
}

}  // namespace
}  // namespace tost
