#include "tost/serve/language_service.h"

#include <gtest/gtest.h>

#include <future>

#include "tost/base/error.h"
#include "tost/io/tokenizers.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

LoadedLanguage model_of(const std::string& mixer, const std::string& positions = "none") {
  torch::manual_seed(11);
  LanguageConfig c;
  c.vocab = 257;
  c.block = 600;
  c.dim = 64;
  c.depth = 2;
  c.heads = 4;
  c.layer_scale = 1;
  c.mixer = mixer;
  if (mixer == "means") {
    c.options.conv = 4;
    c.options.decay = "learned";
    c.options.gate = true;
  }
  c.positions = positions;
  LoadedLanguage loaded;
  loaded.model = make_language_model(c);
  loaded.model->eval();
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_dict(*loaded.model)) {
    if (tensor.dim() == 2) tensor.mul_(4);
  }
  loaded.info.config = c;
  loaded.info.tokenizer = make_byte_tokenizer();
  return loaded;
}

struct Written {
  std::string text;
  std::vector<int64_t> ids;
  std::vector<double> logprobs;
  TextEnd end;
};

struct Text {
  std::shared_ptr<Written> written = std::make_shared<Written>();
  std::shared_ptr<std::promise<void>> done = std::make_shared<std::promise<void>>();
  const Written& wait() {
    done->get_future().wait();
    return *written;
  }
};

TextRequest request_of(Text& text, std::vector<int64_t> prompt, uint64_t seed, int64_t tokens) {
  TextRequest r{.prompt = std::move(prompt), .logprobs = 2};
  r.config.seed = seed;
  r.config.max_tokens = tokens;
  r.config.ignore_end = true;
  r.events.piece = [w = text.written](const std::string& piece,
                                      const std::optional<TokenLogprob>& token) {
    w->text += piece;
    if (!token) return;
    w->ids.push_back(token->id);
    w->logprobs.push_back(token->logprob);
  };
  r.events.end = [w = text.written, done = text.done](TextEnd end) {
    w->end = std::move(end);
    done->set_value();
  };
  return r;
}

std::vector<int64_t> prompt_of(Random& random, int64_t tokens) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(random.below(256));
  return ids;
}

void expect_same(const Written& found, const Written& wanted) {
  ASSERT_EQ(found.ids, wanted.ids);
  ASSERT_EQ(found.logprobs, wanted.logprobs);
  ASSERT_EQ(found.text, wanted.text);
}

// Texts that come at random times, with prompts of all lengths and beginnings that others share.
TEST(LanguageService, ATextIsTheSameAloneAndInAnyCompany) {
  for (const char* mixer : {"tssa", "means", "softmax"}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
      Metrics metrics;
      LanguageService alone(model_of(mixer), precision, {.prefix_bytes = 0}, metrics);
      LanguageService crowd(model_of(mixer), precision, {.batch = 13, .queue = 1000}, metrics);
      Random random(3);
      const auto shared = prompt_of(random, 2 * kPrefixPiece);
      std::vector<Text> together(40);
      std::vector<std::vector<int64_t>> prompts;
      std::vector<int64_t> lengths;
      for (size_t i = 0; i < together.size(); ++i) {
        auto prompt = i % 4 == 0 ? shared : std::vector<int64_t>();
        const auto rest = prompt_of(random, random.below(i % 5 == 0 ? 400 : 30) + (i % 8 != 0));
        prompt.insert(prompt.end(), rest.begin(), rest.end());
        prompts.push_back(prompt);
        lengths.push_back(1 + random.below(20));
        ASSERT_TRUE(crowd.submit(request_of(together[i], prompt, i, lengths[i])));
        if (i % 10 == 9) together[i - 3].wait();
      }
      for (size_t i = 0; i < together.size(); ++i) {
        Text one;
        ASSERT_TRUE(alone.submit(request_of(one, prompts[i], i, lengths[i])));
        const auto wanted = one.wait();
        if (i % 10 != 6) together[i].wait();
        ASSERT_EQ(int64_t(wanted.ids.size()), lengths[i]);
        expect_same(*together[i].written, wanted);
      }
      EXPECT_GT(metrics.prefix_hits, 0);
    }
  }
}

// Repeated, gone on from and beginning alike: what is known of a prompt's end serves it alone.
TEST(LanguageService, AKnownPromptOfAnyLengthGivesTheSameText) {
  for (const char* mixer : {"tssa", "means", "softmax"}) {
    Metrics metrics, others;
    LanguageService alone(model_of(mixer), Precision::kBf16, {.prefix_bytes = 0}, others);
    LanguageService service(model_of(mixer), Precision::kBf16, {}, metrics);
    Random random(6);
    const auto longest = prompt_of(random, kPrefixPiece + 90);
    const auto ask = [&](LanguageService& from, int64_t tokens, uint64_t seed) {
      Text text;
      from.submit(request_of(text, {longest.begin(), longest.begin() + tokens}, seed, 12));
      return text.wait();
    };
    for (const int64_t tokens : {1, 40, 39, 300, 301, 346, 40, 300}) {
      const auto wanted = ask(alone, tokens, 2);
      expect_same(ask(service, tokens, 2), wanted);
      const auto again = ask(service, tokens, 2);
      expect_same(again, wanted);
      EXPECT_EQ(again.end.cached_tokens, tokens);
      expect_same(ask(service, tokens, 3), ask(alone, tokens, 3));
    }
  }
}

TEST(LanguageService, ASessionGoesOnAsIfItHadNeverStopped) {
  for (const char* positions : {"none", "learned"}) {
    Metrics metrics;
    LanguageService service(model_of("tssa", positions), Precision::kBf16, {}, metrics);
    Random random(5);
    const auto prompt = prompt_of(random, 300), more = prompt_of(random, 40);
    const auto after = [&](const Written& before, bool through_bytes) {
      Text text;
      auto r = request_of(text, more, 9, 12);
      r.session = before.end.session;
      if (through_bytes) {
        const auto bytes = service.format().bytes(before.end.session);
        r.session = service.format().read(
            parse_safetensors(std::make_shared<std::string>(bytes), "it"), "It");
      }
      service.submit(std::move(r));
      return text.wait();
    };
    Text first;
    auto r = request_of(first, prompt, 8, 10);
    r.keep = true;
    service.submit(std::move(r));
    const auto& before = first.wait();
    EXPECT_EQ(before.end.session.state.position, 309);
    EXPECT_EQ(before.end.session.pending, std::vector<int64_t>{before.ids.back()});
    const auto a = after(before, false), b = after(before, true);
    EXPECT_EQ(a.ids.size(), 12u);
    EXPECT_EQ(a.end.prompt_tokens, 41);
    expect_same(a, b);
  }
}

TEST(LanguageService, EndsWhereNobodyWaits) {
  Metrics metrics;
  LanguageService service(model_of("tssa"), Precision::kFp32, {}, metrics);
  Text text;
  auto r = request_of(text, {1, 2}, 1, 1'000'000'000);
  std::atomic<int> tokens{0};
  std::atomic<bool> gone{false};
  auto inner = r.events.piece;
  r.events.piece = [&, inner](const std::string& piece, const std::optional<TokenLogprob>& t) {
    inner(piece, t);
    if (++tokens == 5) gone = true;
  };
  r.events.gone = [&] { return gone.load(); };
  service.submit(std::move(r));
  EXPECT_EQ(text.wait().end.reason, "interrupted");
  EXPECT_EQ(tokens, 5);  // not one step more
  EXPECT_EQ(metrics.abandoned, 1);
}

TEST(LanguageService, AShortPromptDoesNotWaitForALongOne) {
  Metrics metrics;
  LanguageService service(model_of("tssa"), Precision::kFp32, {}, metrics);
  Random random(4);
  Text longest, shorter;
  std::promise<void> both;  // are there when it begins
  service.run([&](LanguageModel&) { both.get_future().wait(); });
  std::atomic<bool> ended{false}, first{false};
  auto r = request_of(longest, prompt_of(random, 100'000), 1, 1);
  r.events.end = [inner = r.events.end, &ended](TextEnd end) {
    ended = true;
    inner(std::move(end));
  };
  service.submit(std::move(r));
  auto s = request_of(shorter, {1, 2}, 1, 5);
  s.events.end = [inner = s.events.end, &ended, &first](TextEnd end) {
    first = !ended;
    inner(std::move(end));
  };
  service.submit(std::move(s));
  both.set_value();
  shorter.wait();
  longest.wait();
  EXPECT_TRUE(first);
}

TEST(LanguageService, RefusesWhatDoesNotFit) {
  Metrics metrics;
  LanguageService service(model_of("tssa", "learned"), Precision::kFp32, {.queue = 0}, metrics);
  const auto refuses = [&](std::vector<int64_t> prompt, int64_t tokens) {
    Text text;
    EXPECT_THROW(service.submit(request_of(text, std::move(prompt), 1, tokens)), Error);
  };
  refuses({}, 1);
  refuses({257}, 1);
  refuses({-1}, 1);
  refuses(std::vector<int64_t>(601, 1), 0);
  refuses(std::vector<int64_t>(500, 1), 102);
  Text text;
  EXPECT_FALSE(service.submit(request_of(text, {1}, 1, 1)));  // the queue is full
}

TEST(LanguageService, BrokenStatesEndTheirTextAlone) {
  Metrics metrics;
  LanguageService service(model_of("tssa"), Precision::kFp32, {}, metrics);
  Text first;
  auto r = request_of(first, {1, 2, 3}, 1, 2);
  r.keep = true;
  service.submit(std::move(r));
  auto session = first.wait().end.session;
  for (auto& block : session.state.blocks) {
    for (auto& [name, tensor] : block) tensor.fill_(std::nan(""));
  }
  Text broken, whole;
  auto bad = request_of(broken, {4}, 1, 50);
  bad.session = session;
  service.submit(std::move(bad));
  service.submit(request_of(whole, {1, 2, 3}, 1, 50));
  EXPECT_EQ(broken.wait().end.reason, "failed");
  EXPECT_NE(broken.written->end.error, "");
  EXPECT_EQ(whole.wait().end.reason, "length");
  EXPECT_EQ(whole.written->ids.size(), 50u);
}

TEST(LanguageService, StoppingEndsEveryText) {
  Metrics metrics;
  Text running, waiting;
  {
    LanguageService service(model_of("tssa"), Precision::kFp32, {.batch = 1}, metrics);
    service.submit(request_of(running, {1}, 1, 1'000'000'000));
    service.submit(request_of(waiting, {1}, 1, 1));
  }
  EXPECT_EQ(running.wait().end.reason, "interrupted");
  EXPECT_EQ(waiting.wait().end.reason, "interrupted");
}

TEST(LanguageService, EmbeddingsAreDirectionsOfTheMeanOfTheLastLayer) {
  Metrics metrics;
  LanguageService service(model_of("tssa"), Precision::kFp32, {}, metrics);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 300; ++i) ids.push_back(i * i % 251);
  std::promise<std::pair<torch::Tensor, torch::Tensor>> result;
  service.run([&](LanguageModel& model) {
    const torch::NoGradGuard no_grad;
    const auto mean = model.hidden(torch::tensor(ids, torch::kLong).unsqueeze(0)).mean({0, 1});
    result.set_value({torch::tensor(service.embed(ids)), mean / mean.norm()});
  });
  const auto [found, expected] = result.get_future().get();
  EXPECT_EQ(found.numel(), 64);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-3, 1e-5)) << found << expected;
}

}  // namespace
}  // namespace tost
