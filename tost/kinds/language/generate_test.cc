#include "tost/engine/generate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/session_file.h"
#include "tost/engine/text_writer.h"
#include "tost/kinds/language/engine.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace {

using Ids = std::vector<int64_t>;

// --- text ------------------------------------------------------------------------------------

TEST(TextStream, HoldsBackHalfCharacters) {
  TextStream stream;
  EXPECT_EQ(stream.push("a\xE2\x82"), "a");
  EXPECT_EQ(stream.push("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.push("x"), "\xEF\xBF\xBD\xEF\xBF\xBDx");
  EXPECT_EQ(stream.push("\xFF\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(stream.push("\xE2"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(TextStream, PausesInsideACharacter) {
  TextStream stream({"END"});
  EXPECT_EQ(stream.push("x\xE2\x82"), "x");
  EXPECT_EQ(stream.pause(), "");
  TextStream next({"END"}, stream.held());
  EXPECT_EQ(next.push("\xAC!"), "\xE2\x82\xAC!");
}

TEST(TextStream, FindsStopStringsAcrossTokens) {
  TextStream stream({"END", "\n\n"});
  EXPECT_EQ(stream.push("one E"), "one ");
  EXPECT_EQ(stream.push("N"), "");
  EXPECT_EQ(stream.push("T "), "ENT ");
  EXPECT_EQ(stream.push("two\n"), "two");
  EXPECT_EQ(stream.push("\nthree"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

// --- generation ------------------------------------------------------------------------------

class Generate : public ::testing::Test {
 protected:
  void make(const char* positions, const char* mixer = "tssa", int64_t window = 0) {
    LanguageConfig c;
    c.mixer = mixer;
    c.vocab = 257;
    c.block = 24;
    c.dim = 16;
    c.depth = 2;
    c.heads = 2;
    c.layer_scale = 1;
    c.positions = positions;
    if (c.mixer == "tssa") c.options.conv = 3;
    c.options.window = window;
    torch::manual_seed(11);
    model_ = make_language_model(c);
    torch::NoGradGuard no_grad;
    for (auto& p : model_->parameters()) p.add_(torch::randn_like(p) * 0.3);
    model_->eval();
    tokenizer_ = tokenizer_from_json({{"kind", "bytes"}}, "test");
  }
  GenerateResult run(const std::vector<Ids>& prompts, const GenerateConfig& config,
                     TextSession* session = nullptr) {
    return generate(*model_, *tokenizer_, prompts, config, session);
  }

  TextSession save_short_session(const std::filesystem::path& file) {
    GenerateConfig config;
    config.max_tokens = 2;
    TextSession session;
    run({{1}}, config, &session);
    save_session(file, session, *model_);
    return session;
  }

  std::shared_ptr<LanguageModel> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

// The official way: the whole prefix again for every token.
TEST_F(Generate, GreedyEqualsRecomputingThePrefix) {
  make("learned");
  const torch::NoGradGuard no_grad;
  Ids ids{10, 20, 30};
  GenerateConfig config;
  config.sampling.temperature = 0;
  config.max_tokens = 20;
  config.ignore_end = true;
  const auto found = run({ids}, config).texts[0].ids;
  for (int64_t i = 0; i < 20; ++i) {
    const auto logits = model_->forward(torch::tensor(ids).unsqueeze(0));
    ids.push_back(logits[0][-1].argmax().item<int64_t>());
  }
  EXPECT_EQ(found, Ids(ids.begin() + 3, ids.end()));
}

TEST_F(Generate, TogetherIsAsAlone) {
  make("none");
  GenerateConfig config;
  config.max_tokens = 30;
  config.sampling.temperature = 0;
  const auto both = run({{1, 2, 3}, {9, 8, 7}}, config);
  EXPECT_EQ(both.texts[0].ids, run({{1, 2, 3}}, config).texts[0].ids);
  EXPECT_EQ(both.texts[1].ids, run({{9, 8, 7}}, config).texts[0].ids);
  EXPECT_EQ(both.stats.prompt_tokens, 6);
  // The same with random draws, whatever the other texts are.
  config.sampling.temperature = 1;
  EXPECT_EQ(run({{4}, {1, 2, 3}, {5, 5}}, config).texts[1].ids,
            run({{7, 7, 7}, {1, 2, 3}}, config).texts[1].ids);
  EXPECT_NE(run({{4}, {4}}, config).texts[1].ids, run({{4}, {4}}, config).texts[0].ids);
}

TEST_F(Generate, SeedDecidesTheText) {
  make("none");
  GenerateConfig config;
  config.max_tokens = 30;
  const auto a = run({{5}}, config).texts[0].ids;
  EXPECT_EQ(run({{5}}, config).texts[0].ids, a);
  config.seed = 1;
  EXPECT_NE(run({{5}}, config).texts[0].ids, a);
}

TEST_F(Generate, PastTheBlockStopsOrSlides) {
  make("learned");
  GenerateConfig config;
  config.max_tokens = 60;
  config.ignore_end = true;
  EXPECT_THROW(run({{1, 2}}, config), Error);
  config.past_block = "slide";
  EXPECT_EQ(run({{1, 2}}, config).texts[0].ids.size(), 60u);
  EXPECT_EQ(run({Ids(100, 7)}, config).texts[0].ids.size(), 60u);
  config.max_tokens = std::numeric_limits<int64_t>::max();
  config.past_block = "stop";
  EXPECT_THROW(run({{1, 2}}, config), Error);
  config.max_tokens = 23;
  EXPECT_EQ(run({{1, 2}}, config).texts[0].ids.size(), 23u);
}

// By hand: a full block is forgotten but for its last half.
TEST_F(Generate, SlidingReadsTheLastHalfBlockAgain) {
  make("learned");
  const torch::NoGradGuard no_grad;
  GenerateConfig config;
  config.sampling.temperature = 0;
  config.max_tokens = 50;
  config.ignore_end = true;
  config.past_block = "slide";
  Ids all{10, 20, 30};
  int64_t first = 0;  // of the tokens the model has in view
  for (int i = 0; i < 50; ++i) {
    if (int64_t(all.size()) - first > 24) first = int64_t(all.size()) - 12;
    const auto logits =
        model_->forward(torch::tensor(Ids(all.begin() + first, all.end())).unsqueeze(0));
    all.push_back(logits[0][-1].argmax().item<int64_t>());
  }
  EXPECT_EQ(run({{10, 20, 30}}, config).texts[0].ids, Ids(all.begin() + 3, all.end()));
}

// Stopped before the first token is drawn: what was not read is read first when it continues.
TEST_F(Generate, StoppedPromptContinues) {
  make("none");
  const Ids prompt(5000, 65);
  GenerateConfig config;
  config.sampling.temperature = 0;
  config.ignore_end = true;
  config.max_tokens = 6;
  const auto whole = run({prompt}, config).texts[0].ids;
  TextSession session;
  std::atomic<bool> stop{true};
  const auto stopped = generate(*model_, *tokenizer_, {prompt}, config, &session, {}, &stop);
  EXPECT_EQ(stopped.texts[0].ended, "interrupted");
  EXPECT_TRUE(stopped.texts[0].ids.empty());
  EXPECT_EQ(session.state.position, kPieceTokens);
  EXPECT_EQ(session.pending.size(), size_t(5000 - kPieceTokens));
  EXPECT_EQ(run({{}}, config, &session).texts[0].ids, whole);
}

TEST_F(Generate, EndsWithoutAReader) {
  make("none");
  GenerateConfig config;
  config.max_tokens = 1000;
  int pieces = 0;
  const auto result = generate(*model_, *tokenizer_, {{65}}, config, nullptr,
                               [&](int64_t, const std::string&) { return ++pieces < 3; });
  EXPECT_EQ(result.texts[0].ended, "interrupted");
  EXPECT_LT(result.texts[0].ids.size(), 40u);
}

TEST_F(Generate, RefusesAnEmptyPromptAndForeignTokens) {
  make("none");
  EXPECT_THROW(run({{}}, {}), Error);
  EXPECT_THROW(run({{300}}, {}), Error);
}

TEST_F(Generate, SessionContinuesWhereItStopped) {
  for (const auto& [mixer, positions, window] : {std::tuple{"tssa", "none", 0},
                                                 {"softmax", "none", 0},
                                                 {"softmax", "none", 1},
                                                 {"softmax", "none", 5},
                                                 {"tssa", "learned", 0}}) {
    make(positions, mixer, window);
    GenerateConfig config;
    config.past_block = "slide";
    config.sampling.temperature = 0;
    config.sampling.repetition_penalty = 1.3;
    config.ignore_end = true;
    config.max_tokens = 40;
    const auto whole = run({{1, 2, 3}}, config).texts[0].ids;
    config.max_tokens = 8;
    TextSession session;
    auto ids = run({{1, 2, 3}}, config, &session).texts[0].ids;
    const testing::TempDir folder;
    const auto file = folder.path() / "session";
    save_session(file, session, *model_);
    TextSession later = load_session(file, *model_);
    config.max_tokens = 32;
    const auto rest = run({{}}, config, &later).texts[0].ids;
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, whole) << mixer << ", window " << window;
  }
}

TEST_F(Generate, AnEngineContinuesAnySession) {
  for (const auto& [mixer, window] : {std::pair{"tssa", 0}, {"softmax", 0}, {"softmax", 1}}) {
    make("none", mixer, window);
    GenerateConfig config;
    config.sampling.temperature = 0;
    config.ignore_end = true;
    config.max_tokens = 40;
    const Ids prompt(700, 66);
    const auto whole = run({prompt}, config).texts[0].ids;
    config.max_tokens = 15;
    TextSession session;
    auto ids = run({prompt}, config, &session).texts[0].ids;
    read_by_engine(model_, Precision::kFp32);
    const testing::TempDir folder;
    const auto file = folder.path() / "session";
    save_session(file, session, *model_);
    TextSession later = load_session(file, *model_);
    config.max_tokens = 25;
    const auto rest = run({{}}, config, &later).texts[0].ids;
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, whole) << mixer;
    config.max_tokens = 40;
    EXPECT_EQ(run({prompt}, config).texts[0].ids, whole) << mixer;
  }
}

TEST_F(Generate, SessionOfAnotherModelIsRefused) {
  make("none");
  const testing::TempDir folder;
  const auto file = folder.path() / "session";
  save_short_session(file);
  {
    const torch::NoGradGuard no_grad;
    model_->parameters()[0][0][0] += 1.0;
  }
  try {
    load_session(file, *model_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another model"), std::string::npos) << error.what();
  }
  make("learned");
  EXPECT_THROW(load_session(file, *model_), Error);
}

TEST_F(Generate, SessionsFromBeforeASettingAreRead) {
  make("none", "delta");
  const testing::TempDir folder;
  const auto file = folder.path() / "session";
  const TextSession session = save_short_session(file);
  auto content = load_safetensors(file);
  auto head = nlohmann::json::parse(content.metadata.at("tost.session"));
  for (const char* later : {"beta_range", "delta_steps"}) head["config"].erase(later);
  content.metadata["tost.session"] = head.dump();
  save_safetensors(file, content.tensors, content.metadata);
  EXPECT_EQ(load_session(file, *model_).state.position, session.state.position);
  head["config"]["beta_range"] = 2;
  content.metadata["tost.session"] = head.dump();
  save_safetensors(file, content.tensors, content.metadata);
  EXPECT_NE(testing::error_of([&] { load_session(file, *model_); }).find("another model"),
            std::string::npos);
}

// Every tensor of a session cut short, and heads that lie: refused, never used.
TEST_F(Generate, DamagedSessionsAreRefused) {
  for (const auto& [mixer, positions] : {std::pair{"softmax", "none"}, {"tssa", "learned"}}) {
    make(positions, mixer);
    GenerateConfig config;
    config.max_tokens = 4;
    config.ignore_end = true;
    TextSession session;
    run({{1, 2, 3}}, config, &session);
    const testing::TempDir folder;
    const auto file = folder.path() / "session", other = folder.path() / "other";
    save_session(file, session, *model_);
    const auto content = load_safetensors(file);
    for (const auto& [name, tensor] : content.tensors) {
      if (name == "seen" || name == "held" || name == "pending") continue;
      auto tensors = content.tensors;
      const int64_t dim = tensor.dim() == 4 ? 2 : tensor.dim() - 1;
      if (tensor.numel() > 0) {
        tensors[name] = tensor.narrow(dim, 0, tensor.size(dim) - 1).contiguous();
        save_safetensors(other, tensors, content.metadata);
        EXPECT_THROW(load_session(other, *model_), Error) << name;
      }
      tensors.erase(name);
      save_safetensors(other, tensors, content.metadata);
      EXPECT_THROW(load_session(other, *model_), Error) << name;
    }
    auto tensors = content.tensors;
    tensors["pending"] = torch::tensor({int64_t{999}});
    save_safetensors(other, tensors, content.metadata);
    EXPECT_THROW(load_session(other, *model_), Error);
    auto head = nlohmann::json::parse(content.metadata.at("tost.session"));
    head["position"] = std::numeric_limits<int64_t>::max();
    save_safetensors(other, content.tensors, {{"tost.session", head.dump()}});
    EXPECT_THROW(load_session(other, *model_), Error);
  }
}

}  // namespace
}  // namespace tost
