#include "tost/serve/language_service.h"

#include <gtest/gtest.h>

#include <future>

#include "tost/base/error.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"
#include "tost/serve/fields.h"

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

// How the full program serves a model, and how the small one does.
class ServedTexts : public ::testing::TestWithParam<const char*> {
 protected:
  bool small() const { return GetParam() == std::string("Small"); }
  std::vector<std::string> mixers() const { return {"tssa", "means", "softmax"}; }
  ServedText text_of(const std::string& mixer, Precision precision = Precision::kFp32,
                     const std::string& positions = "none") const {
    const auto loaded = model_of(mixer, positions);
    if (!small()) return {text_engine(*loaded.model, precision), loaded.info};
    auto opened = engine_language_of(
        {arrays_of(state_dict(*loaded.model)), to_metadata(loaded.info)}, "it", name_of(precision));
    return {std::move(opened.model), std::move(opened.info)};
  }
};
INSTANTIATE_TEST_SUITE_P(, ServedTexts, ::testing::Values("Full", "Small"),
                         [](const auto& info) { return info.param; });

struct Written {
  std::string text;
  std::vector<int64_t> ids;
  std::vector<double> logprobs;
  int64_t position = 0;  // as the last piece told it
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

TextRequest request_of(Text& text, const std::vector<int64_t>& prompt, uint64_t seed,
                       int64_t tokens) {
  TextRequest r{.prompt = std::make_shared<std::vector<int32_t>>(prompt.begin(), prompt.end()),
                .logprobs = 2};
  r.config.seed = seed;
  r.config.max_tokens = tokens;
  r.config.ignore_end = true;
  r.events.piece = [w = text.written](const std::string& piece,
                                      const std::optional<TokenLogprob>& token, int64_t position) {
    w->text += piece;
    w->position = position;
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

bool submit(LanguageService& service, TextRequest request) {
  std::vector<TextRequest> one;
  one.push_back(std::move(request));
  return service.submit(std::move(one));
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
TEST_P(ServedTexts, ATextIsTheSameAloneAndInAnyCompany) {
  for (const auto& mixer : mixers()) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
      Metrics metrics;
      LanguageService single(text_of(mixer, precision), {.prefix_bytes = 0}, metrics);
      LanguageService crowd(text_of(mixer, precision), {.batch = 13, .queue = 1000}, metrics);
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
        ASSERT_TRUE(submit(crowd, request_of(together[i], prompt, i, lengths[i])));
        if (i % 10 == 9) together[i - 3].wait();
      }
      for (size_t i = 0; i < together.size(); ++i) {
        Text one;
        ASSERT_TRUE(submit(single, request_of(one, prompts[i], i, lengths[i])));
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
TEST_P(ServedTexts, AKnownPromptOfAnyLengthGivesTheSameText) {
  for (const auto& mixer : mixers()) {
    Metrics metrics, others;
    LanguageService single(text_of(mixer, Precision::kBf16), {.prefix_bytes = 0}, others);
    LanguageService service(text_of(mixer, Precision::kBf16), {}, metrics);
    Random random(6);
    const auto longest = prompt_of(random, kPrefixPiece + 90);
    const auto ask = [&](LanguageService& from, int64_t tokens, uint64_t seed) {
      Text text;
      submit(from, request_of(text, {longest.begin(), longest.begin() + tokens}, seed, 12));
      return text.wait();
    };
    for (const int64_t tokens : {1, 40, 39, 300, 301, 346, 40, 300}) {
      const auto wanted = ask(single, tokens, 2);
      expect_same(ask(service, tokens, 2), wanted);
      const auto again = ask(service, tokens, 2);
      expect_same(again, wanted);
      EXPECT_EQ(again.end.cached_tokens, tokens);
      expect_same(ask(service, tokens, 3), ask(single, tokens, 3));
    }
  }
}

TEST_P(ServedTexts, ASessionContinuesAsIfItHadNeverStopped) {
  for (const char* positions : {"none", "learned"}) {
    Metrics metrics;
    LanguageService service(text_of("tssa", Precision::kBf16, positions), {}, metrics);
    Random random(5);
    const auto prompt = prompt_of(random, 300), more = prompt_of(random, 40);
    const auto after = [&](const Written& before, bool through_bytes) {
      Text text;
      auto r = request_of(text, more, 9, 12);
      r.session = before.end.session;
      if (through_bytes) {
        const auto bytes = service.format().bytes(before.end.session);
        r.session =
            service.format().read(parse_arrays(std::make_shared<std::string>(bytes), "it"), "It");
      }
      submit(service, std::move(r));
      return text.wait();
    };
    Text first;
    auto r = request_of(first, prompt, 8, 10);
    r.keep = true;
    submit(service, std::move(r));
    const auto& before = first.wait();
    EXPECT_EQ(before.end.session.state.position, 309);
    EXPECT_EQ(before.position, 309);
    EXPECT_EQ(before.end.session.pending, std::vector<int64_t>{before.ids.back()});
    const auto a = after(before, false), b = after(before, true);
    EXPECT_EQ(a.ids.size(), 12u);
    EXPECT_EQ(a.end.prompt_tokens, 41);
    expect_same(a, b);
  }
}

TEST_P(ServedTexts, EndsWithoutWaiters) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Text text;
  auto r = request_of(text, {1, 2}, 1, 1'000'000'000);
  std::atomic<int> tokens{0};
  std::atomic<bool> disconnected{false};
  auto inner = r.events.piece;
  r.events.piece = [&, inner](const std::string& piece, const std::optional<TokenLogprob>& t,
                              int64_t position) {
    inner(piece, t, position);
    if (++tokens == 5) disconnected = true;
  };
  r.events.disconnected = [&] { return disconnected.load(); };
  submit(service, std::move(r));
  EXPECT_EQ(text.wait().end.reason, "interrupted");
  EXPECT_EQ(tokens, 5);  // not one step more
  EXPECT_EQ(metrics.abandoned, 1);
}

TEST_P(ServedTexts, AShortPromptDoesNotWaitForALongOne) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Random random(4);
  Text longest, shorter;
  std::promise<void> both;  // are there when it begins
  service.run([&] { both.get_future().wait(); });
  std::atomic<bool> ended{false}, first{false};
  auto r = request_of(longest, prompt_of(random, 100'000), 1, 1);
  r.events.end = [inner = r.events.end, &ended](TextEnd end) {
    ended = true;
    inner(std::move(end));
  };
  submit(service, std::move(r));
  auto s = request_of(shorter, {1, 2}, 1, 5);
  s.events.end = [inner = s.events.end, &ended, &first](TextEnd end) {
    first = !ended;
    inner(std::move(end));
  };
  submit(service, std::move(s));
  both.set_value();
  shorter.wait();
  longest.wait();
  EXPECT_TRUE(first);
}

TEST_P(ServedTexts, RefusesWhatDoesNotFit) {
  Metrics metrics;
  LanguageService service(text_of("tssa", Precision::kFp32, "learned"), {.queue = 0}, metrics);
  const auto refuses = [&](const std::vector<int64_t>& prompt, int64_t tokens) {
    Text text;
    EXPECT_THROW(submit(service, request_of(text, prompt, 1, tokens)), Error);
  };
  refuses({}, 1);
  refuses(std::vector<int64_t>(601, 1), 0);
  refuses(std::vector<int64_t>(500, 1), 102);
  EXPECT_THROW(service.prompt({257}), Error);
  EXPECT_THROW(service.prompt({-1}), Error);
  Text text;
  EXPECT_FALSE(submit(service, request_of(text, {1}, 1, 1)));  // the queue is full
}

TEST_P(ServedTexts, CountsTheTokensOfPromptsWhileTheyAreShared) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {.prompt_tokens = 10, .all_prompt_tokens = 15}, metrics);
  const auto status = [&](size_t tokens) {
    try {
      service.prompt(std::vector<int32_t>(tokens, 1));
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  };
  EXPECT_EQ(status(11), 400);
  auto held = service.prompt(std::vector<int32_t>(10, 1));
  const auto shared = held;
  EXPECT_EQ(service.prompt_tokens(), 10);
  EXPECT_EQ(status(6), 429);
  EXPECT_EQ(status(5), 200);
  held.reset();
  EXPECT_EQ(service.prompt_tokens(), 10);
}

TEST_P(ServedTexts, TextsOfOnePromptReadItOnce) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Random random(8);
  const auto ids = prompt_of(random, 700);
  std::vector<Text> texts(8);
  std::vector<TextRequest> requests;
  for (auto& text : texts) requests.push_back(request_of(text, ids, requests.size(), 5));
  service.submit(std::move(requests));
  for (auto& text : texts) text.wait();
  EXPECT_EQ(metrics.cached_tokens, 7 * 700);
}

TEST_P(ServedTexts, ManyTextsOfARequestLetOthersIn) {
  for (const int64_t batch : {1, 4}) {
    Metrics metrics;
    LanguageService service(text_of("tssa"), {.batch = batch}, metrics);
    std::mutex mutex;
    std::vector<int64_t> ended;  // 0: of the large request
    const auto noted = [&](TextRequest r, int64_t who) {
      r.events.end = [&, who, inner = r.events.end](TextEnd end) {
        {
          const std::lock_guard lock(mutex);
          ended.push_back(who);
        }
        inner(std::move(end));
      };
      return r;
    };
    std::vector<Text> many(20);
    Text others[2];
    std::promise<void> all;  // are there when it begins
    service.run([&] { all.get_future().wait(); });
    std::vector<TextRequest> requests;
    for (auto& text : many) requests.push_back(noted(request_of(text, {1}, 1, 30), 0));
    ASSERT_TRUE(service.submit(std::move(requests)));
    for (auto& text : others) submit(service, noted(request_of(text, {1}, 1, 30), 1));
    all.set_value();
    for (auto& text : many) text.wait();
    for (auto& text : others) text.wait();
    const auto last = std::find(ended.rbegin(), ended.rend(), 1);
    EXPECT_LE(ended.rend() - last, 4) << batch;  // one of the large request before each at most
  }
}

TEST_P(ServedTexts, ALargeRequestLeavesRoomInTheQueue) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {.batch = 1, .queue = 8}, metrics);
  std::promise<void> go;
  service.run([&] { go.get_future().wait(); });
  std::vector<Text> many(7);
  std::vector<TextRequest> requests;
  for (auto& text : many) requests.push_back(request_of(text, {1}, 1, 1));
  EXPECT_FALSE(service.submit(std::move(requests)));
  Text one;
  EXPECT_TRUE(submit(service, request_of(one, {1}, 1, 1)));
  go.set_value();
  one.wait();
}

TEST_P(ServedTexts, TheTimeLimitIsNoLength) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Text text;
  auto r = request_of(text, {1}, 1, 1'000'000'000);
  r.seconds = 1e-9;
  submit(service, std::move(r));
  EXPECT_EQ(text.wait().end.reason, "interrupted");
  EXPECT_EQ(text.written->end.new_tokens, 0);
  EXPECT_NE(text.written->end.error, "");
}

TEST_P(ServedTexts, ASessionOfOneTokenContinues) {
  for (const char* positions : {"none", "learned"}) {
    Metrics metrics;
    LanguageService service(text_of("tssa", Precision::kBf16, positions), {}, metrics);
    Text begun, going, whole;
    auto r = request_of(begun, {65}, 1, 0);
    r.keep = true;
    submit(service, std::move(r));
    const auto& session = begun.wait().end.session;
    EXPECT_EQ(session.state.position, 0);
    EXPECT_EQ(session.pending, std::vector<int64_t>{65});
    const auto bytes = std::make_shared<std::string>(service.format().bytes(session));
    auto s = request_of(going, {}, 1, 10);
    s.prompt = nullptr;
    s.config.sampling.temperature = 0;
    s.session = service.format().read(parse_arrays(bytes, "it"), "It");
    submit(service, std::move(s));
    auto t = request_of(whole, {65}, 1, 10);
    t.config.sampling.temperature = 0;
    submit(service, std::move(t));
    expect_same(going.wait(), whole.wait());
  }
}

// What no text can have led to.
TEST_P(ServedTexts, SessionsOutOfRangeAreRefused) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Text text;
  auto r = request_of(text, {1, 2, 3}, 1, 2);
  r.keep = true;
  submit(service, std::move(r));
  const auto session = text.wait().end.session;
  const auto refused = [&](const TextSession& changed) {
    const auto bytes = std::make_shared<std::string>(service.format().bytes(changed));
    try {
      service.format().read(parse_arrays(bytes, "it"), "It");
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused(session));
  auto far = session, empty = TextSession(), large = session;
  far.state.position = int64_t{1} << 50;
  EXPECT_TRUE(refused(far));
  EXPECT_TRUE(refused(empty));
  large.state.blocks[0] = copy_of(session.state).blocks[0];
  for (auto& [name, array] : large.state.blocks[0]) {
    const auto tensor = tensor_of(array);
    tensor.view(-1)[0].fill_(tensor.scalar_type() == torch::kDouble ? 1e300 : 3e38);
  }
  EXPECT_TRUE(refused(large));
}

TEST_P(ServedTexts, BrokenStatesEndTheirTextAlone) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  Text first;
  auto r = request_of(first, {1, 2, 3}, 1, 2);
  r.keep = true;
  submit(service, std::move(r));
  auto session = first.wait().end.session;
  for (auto& block : session.state.blocks) {
    for (auto& [name, array] : block) tensor_of(array).fill_(std::nan(""));
  }
  Text broken, whole;
  auto bad = request_of(broken, {4}, 1, 50);
  bad.session = session;
  submit(service, std::move(bad));
  submit(service, request_of(whole, {1, 2, 3}, 1, 50));
  EXPECT_EQ(broken.wait().end.reason, "failed");
  EXPECT_NE(broken.written->end.error, "");
  EXPECT_EQ(whole.wait().end.reason, "length");
  EXPECT_EQ(whole.written->ids.size(), 50u);
}

TEST_P(ServedTexts, StoppingEndsEveryText) {
  Metrics metrics;
  Text running, waiting;
  {
    LanguageService service(text_of("tssa"), {.batch = 1}, metrics);
    submit(service, request_of(running, {1}, 1, 1'000'000'000));
    submit(service, request_of(waiting, {1}, 1, 1));
  }
  EXPECT_EQ(running.wait().end.reason, "interrupted");
  EXPECT_EQ(waiting.wait().end.reason, "interrupted");
  EXPECT_EQ(waiting.written->end.new_tokens, 0);
  EXPECT_NE(waiting.written->end.error, "");
}

// So that each can answer that the server ends.
TEST_P(ServedTexts, WorksThatWaitAtTheEndAreRun) {
  Metrics metrics;
  std::promise<void> go, begun;
  bool second = false;
  std::thread stopping;
  {
    LanguageService service(text_of("tssa"), {}, metrics);
    service.run([&] {
      begun.set_value();
      go.get_future().wait();
    });
    begun.get_future().wait();
    service.run([&] { second = true; });
    stopping = std::thread([&] { service.stop(); });
    while (service.run([] {})) std::this_thread::yield();
    go.set_value();
    stopping.join();
  }
  EXPECT_TRUE(second);
}

TEST_P(ServedTexts, EmbeddingsAreDirectionsOfTheMeanOfTheLastLayer) {
  Metrics metrics;
  LanguageService service(text_of("tssa"), {}, metrics);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 3000; ++i) ids.push_back(i * i % 251);
  std::promise<std::pair<torch::Tensor, torch::Tensor>> result;
  int pieces = 0;
  std::function<void()> work;
  LanguageService::Embedding embedding{.ids = service.prompt(ids)};
  work = [&] {
    const auto before = embedding.read;
    service.embed(embedding);
    EXPECT_LE(embedding.read - before, size_t(2 * kPrefixPiece));  // others write in between
    ++pieces;
    if (embedding.direction.empty()) return void(service.run(work));
    const torch::NoGradGuard no_grad;
    const auto all = torch::tensor(std::vector<int64_t>(ids.begin(), ids.end())).unsqueeze(0);
    const auto mean = model_of("tssa").model->hidden(all).mean({0, 1});
    result.set_value({torch::tensor(embedding.direction), mean / mean.norm()});
  };
  service.run(work);
  const auto [found, expected] = result.get_future().get();
  EXPECT_EQ(pieces, 6);
  EXPECT_EQ(found.numel(), 64);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-3, 1e-5)) << found << expected;
}

}  // namespace
}  // namespace tost
