#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/random.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/train_run.h"
#include "tost/nn/state_dict.h"
#include "tost/train/run_test_util.h"

namespace tost {
namespace language_run_test {

namespace fs = std::filesystem;
using nlohmann::json;

// A language of five words in a fixed cycle with noise: easy to learn, far below uniform.
std::string cyclic_text(int64_t words, uint64_t seed) {
  constexpr std::array kWords{"one ", "two ", "three ", "four ", "five\n"};
  Random random(seed);
  std::string text;
  for (int64_t i = 0, at = 0; i < words; ++i) {
    at = random.chance(0.1) ? random.below(5) : (at + 1) % 5;
    text += kWords[size_t(at)];
  }
  return text;
}

fs::path write_text(const testing::TempDir& dir, const std::string& text,
                    const std::string& name = "text.txt") {
  write_file_atomic(dir.path() / name, text);
  return dir.path() / name;
}

// With everything random switched on.
json tiny_values(const fs::path& text) {
  json values = testing::tiny_language_values(text);
  values.update({{"max_steps", 12},
                 {"evaluate_every_steps", 5},
                 {"sample_every_steps", 4},
                 {"sample_tokens", 40},  // beyond the block
                 {"log_every", 4}});
  return values;
}

struct Watcher : TrainListener {
  std::vector<std::string> messages, samples;
  std::function<void(int64_t)> after_step;
  void on_message(const std::string& message) override { messages.push_back(message); }
  void on_sample(int64_t, const std::string& text) override { samples.push_back(text); }
  void on_step(const StepReport& report) override {
    if (after_step) after_step(report.step);
  }
};

TrainResult run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  Watcher watcher;
  return train({out, mode, values}, watcher);
}

std::string error_of(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  return testing::error_of([&] { run(out, values, mode); });
}

using testing::mentions;

StateDict latest_weights(const fs::path& out) {
  const fs::path folder = follow_pointer(out / kCheckpointFolder, kLatestPointer);
  return state_dict(*load_language_file(folder, Weights::kRaw).model);
}

void expect_same_weights(const fs::path& a, const fs::path& b) {
  const StateDict x = latest_weights(a), y = latest_weights(b);
  for (const auto& [name, value] : x) EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
}

void expect_resumes_exactly(const json& changes) {
  const testing::TempDir dir;
  const fs::path whole = dir.path() / "whole", parts = dir.path() / "parts";
  json values = tiny_values(write_text(dir, cyclic_text(400, 1)));
  values.update(changes);
  EXPECT_EQ(run(whole, values).step, 12);
  Watcher watcher;
  std::atomic<bool> stop = false;
  watcher.after_step = [&](int64_t step) { stop = step == 3 || step == 10; };
  EXPECT_EQ(train({parts, RunMode::kNew, values}, watcher, &stop).step, 3);
  stop = false;
  EXPECT_EQ(train({parts, RunMode::kResume}, watcher, &stop).step, 10);
  stop = false;
  // Looking at more samples changes nothing.
  const TrainResult result = run(parts, {{"sample_every_steps", 1}}, RunMode::kResume);
  EXPECT_EQ(result.step, 12);
  EXPECT_FALSE(result.interrupted);
  expect_same_weights(whole, parts);
}

TEST(LanguageRun, ResumedEqualsUninterrupted) {
  expect_resumes_exactly({{"accumulate", 2}});
}

TEST(LanguageRun, ResumedWithMuonEqualsUninterrupted) {
  const json muon{{"optimizer", "muon"}, {"clip", 0.5}, {"ema_decay", 0.9}};
  for (json changes : {json{{"accumulate", 2}}, json{{"precision", "bf16"}}}) {
    changes.update(muon);
    expect_resumes_exactly(changes);
  }
}

TEST(LanguageRun, MuonRefusesShards) {
  const testing::TempDir dir;
  json values = tiny_values(write_text(dir, cyclic_text(400, 1)));
  values.update({{"optimizer", "muon"}, {"shard_optimizer", true}});
  EXPECT_EQ(error_of(dir.path() / "run", values),
            "shard_optimizer divides AdamW's moments alone; leave it out with optimizer muon.");
}

TEST(LanguageRun, WritesAModelFileThatSpeaks) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  Watcher watcher;
  const TrainResult result =
      train({out, RunMode::kNew, tiny_values(write_text(dir, cyclic_text(400, 1)))}, watcher);
  EXPECT_EQ(result.metric, "loss");
  EXPECT_LE(result.best->value, result.last_eval["loss"].get<double>());
  EXPECT_NEAR(result.last_eval["perplexity"].get<double>(),
              std::exp(result.last_eval["loss"].get<double>()), 1e-9);
  ASSERT_EQ(watcher.samples.size(), 3u);
  EXPECT_EQ(watcher.samples[0].size(), 41u) << "the prompt and 40 characters";
  const LoadedLanguage loaded = load_language_file(out, Weights::kRaw);
  EXPECT_EQ(loaded.info.config.vocab, loaded.info.tokenizer->vocab_size());
  EXPECT_EQ(loaded.info.tokenizer->decode(loaded.info.tokenizer->encode("two three\n")),
            "two three\n");
  EXPECT_EQ(model_kind(out), "language");
}

TEST(LanguageRun, FineTuningKeepsArchitectureAndTokenizer) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first";
  json values = tiny_values(write_text(dir, cyclic_text(400, 1)));
  values["max_steps"] = 2;
  run(first, values);
  const fs::path other = write_text(dir, "two one two one four\n" + cyclic_text(300, 2), "b.txt");
  const json still{
      {"from", first.string()}, {"data", other.string()}, {"lr", 0},          {"min_lr", 0},
      {"weight_decay", 0},      {"max_steps", 1},         {"eval_batches", 1}};
  run(dir.path() / "second", still);
  expect_same_weights(first, dir.path() / "second");
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, {{"mixer", "softmax"}})), "mixer"));
  EXPECT_TRUE(
      mentions(error_of(dir.path() / "x", merge(still, {{"recipe", "small"}})), "language model"));
  const fs::path foreign = write_text(dir, "tea for two ü\n" + cyclic_text(300, 2), "c.txt");
  EXPECT_NE(error_of(dir.path() / "x", merge(still, {{"data", foreign.string()}})), "");
  EXPECT_FALSE(fs::exists(dir.path() / "x"));
}

json still_from(const fs::path& source, const fs::path& text) {
  return {{"from", source.string()}, {"data", text.string()}, {"lr", 0},          {"min_lr", 0},
          {"weight_decay", 0},       {"max_steps", 1},        {"eval_batches", 1}};
}

// Stopped before its first step a run has model.json but no weights.
TEST(LanguageRun, FineTuningResumedBeforeItsFirstCheckpointHasTheSourcesWeights) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  const fs::path text = write_text(dir, cyclic_text(400, 1));
  run(first, merge(tiny_values(text), {{"max_steps", 2}}));
  Watcher watcher;
  std::atomic<bool> stop = true;
  // A path that is not in its shortest form.
  const json values = still_from(dir.path() / "no" / ".." / "first" / "", text);
  EXPECT_EQ(train({second, RunMode::kNew, values}, watcher, &stop).step, 0);
  ASSERT_TRUE(fs::exists(second / kModelInfoFile));
  ASSERT_TRUE(follow_pointer(second / kCheckpointFolder, kLatestPointer).empty());
  EXPECT_EQ(run(second, {{"from", first.string()}}, RunMode::kResume).step, 1);
  expect_same_weights(first, second);
}

// Once it has a checkpoint of its own, a run needs its source no more.
TEST(LanguageRun, FineTuningIsResumedWithoutItsSource) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  const fs::path text = write_text(dir, cyclic_text(400, 1));
  run(first, merge(tiny_values(text), {{"max_steps", 2}}));
  run(second, still_from(fs::proximate(first), text));
  const std::string stored = json::parse(read_file(second / kConfigFile, 100000))["from"];
  EXPECT_TRUE(fs::path(stored).is_absolute()) << stored;
  fs::rename(first, dir.path() / "moved");
  EXPECT_EQ(run(second, {{"max_steps", 2}}, RunMode::kResume).step, 2);
  expect_same_weights(dir.path() / "moved", second);
  const std::string error =
      error_of(second, {{"from", (dir.path() / "moved").string()}}, RunMode::kResume);
  EXPECT_TRUE(mentions(error, "started with from") && mentions(error, "moved")) << error;
}

TEST(LanguageRun, FineTuningRefusesWhatItsSourceDecides) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", out = dir.path() / "x";
  const fs::path text = write_text(dir, cyclic_text(400, 1));
  run(first, merge(tiny_values(text), {{"max_steps", 2}}));
  const json still = still_from(first, text);
  for (const auto& [change, word] :
       std::vector<std::pair<json, std::string>>{{{{"tokenizer", "bytes"}}, "tokenizer chars"},
                                                 {{{"tokenizer", "words:50"}}, "tokenizer chars"},
                                                 {{{"model", "tost_gpt_char"}}, "from"}}) {
    const std::string error = error_of(out, merge(still, change));
    EXPECT_TRUE(mentions(error, word)) << change << ": " << error;
    EXPECT_FALSE(fs::exists(out)) << change;
  }
  run(out, merge(still, {{"tokenizer", "chars"}}));
  // The written configuration can be given again, and its model still cannot be changed.
  const json written = json::parse(read_file(out / kConfigFile, 100000));
  run(dir.path() / "again", written);
  EXPECT_TRUE(
      mentions(error_of(out, {{"model", "tost_gpt_char"}}, RunMode::kResume), "tost_gpt_char"));
}

TEST(LanguageRun, BadSettingsLeaveNoFolder) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  const fs::path text = write_text(dir, cyclic_text(400, 1));
  const fs::path brief = write_text(dir, "too short", "brief.txt");
  for (const auto& [change, word] : std::vector<std::pair<json, std::string>>{
           {{{"data", (dir.path() / "nothing").string()}}, "nothing"},
           {{{"data", brief.string()}}, "block"},
           {{{"holdout", 0}}, "holdout"},
           {{{"tokenizer", "char"}}, "char"},
           {{{"sample_prompt", ""}}, "sample_prompt"},
           {{{"sample_prompt", "Ω"}}, "sample_prompt"},
           {{{"model_options", {{"vocab", 3}}}}, "3"},
           {{{"image_size", 32}}, "image_size"}}) {
    const std::string error = error_of(out, merge(tiny_values(text), change));
    EXPECT_TRUE(mentions(error, word)) << change << ": " << error;
    EXPECT_FALSE(fs::exists(out)) << change;
  }
  const std::string error = error_of(out, still_from(dir.path() / "no.safetensors", text));
  EXPECT_TRUE(mentions(error, "no.safetensors")) << error;
  EXPECT_FALSE(fs::exists(out));
}

// The cycle has 0.1 * 4/5 chance of a jump at each word, so its entropy is about 0.5 nats a word of
// 4.6 letters; a uniform guess over 13 letters costs 2.56 a letter.
TEST(SlowLanguageRun, LearnsAGeneratedText) {
  const testing::TempDir dir;
  const fs::path text = write_text(dir, cyclic_text(4000, 3));
  for (const char* mixer : {"tssa", "softmax"}) {
    json values = tiny_values(text);
    values.update({{"mixer", mixer},
                   {"batch", 8},
                   {"dim", 32},
                   {"max_steps", 150},
                   {"lr", 1e-2},
                   {"warmup_steps", 10},
                   {"evaluate_every_steps", 150},
                   {"eval_batches", 8},
                   {"sample_every_steps", 0},
                   {"dropout", 0}});
    const TrainResult result = run(dir.path() / mixer, values);
    EXPECT_LT(result.last_eval["loss"].get<double>(), 0.9) << mixer;
  }
}

}  // namespace language_run_test
}  // namespace tost
