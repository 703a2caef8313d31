// LAMBADA and choices against straightforward computations.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/shared.h"
#include "tost/engine/language_tasks.h"
#include "tost/kinds/language/eval_test_util.h"

namespace tost {
namespace {

using testing::expect_part;
using testing::Ids;
using testing::kSettings;
using testing::LanguageFiles;
using testing::log_probabilities;
using testing::loss_of;
using testing::refusal;
using testing::tiny_language;

Ids bytes_of(const std::string& text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

// The last `most` of these.
Ids tail(const Ids& ids, int64_t most) {
  const auto drop = std::max<int64_t>(0, static_cast<int64_t>(ids.size()) - most);
  return {ids.begin() + drop, ids.end()};
}

struct PredictedText {
  double loss = 0, word_loss = 0;
  int64_t tokens = 0;
  bool right = true;
};

// One token after the other, in a context whose beginning is left out where need be.
PredictedText predict_tokens(LanguageModel& model, const std::string& text, int64_t context) {
  const Ids ids = tail(bytes_of(text), context == 0 ? 1000 : context + 1);
  const auto word = static_cast<int64_t>(text.size() - text.rfind(' '));
  PredictedText result;
  for (size_t t = 1; t < ids.size(); ++t) {
    const auto log_p = log_probabilities(model, Ids(ids.begin(), ids.begin() + int64_t(t)));
    const double loss = -log_p[ids[t]].item<double>();
    result.loss += loss;
    ++result.tokens;
    if (static_cast<int64_t>(ids.size() - t) > word) continue;
    result.word_loss += loss;
    result.right = result.right && log_p.argmax().item<int64_t>() == ids[t];
  }
  return result;
}

// Ten bytes, each the most likely one.
std::string greedy(LanguageModel& model, const std::string& context, int64_t room) {
  Ids ids = room == 0 ? bytes_of(context) : tail(bytes_of(context), room);
  std::string made;
  for (int i = 0; i < 10; ++i) {
    const auto next = log_probabilities(model, ids).argmax().item<int64_t>();
    ids.push_back(next);
    made += next == 256 ? "<|endoftext|>" : std::string(1, static_cast<char>(next));
  }
  return made;
}

TEST_F(LanguageFiles, LambadaIsItsDefinition) {
  for (const auto& [mixer, positions] : kSettings) {
    LoadedLanguage language = tiny_language(mixer, positions);
    LanguageModel& model = *language.model;
    const bool limited = positions == std::string("learned");
    std::vector<std::string> texts = {"one two three", "a bc",
                                      "x yz",          "some more words here now",
                                      "b de",          "two lines\nof a text"};
    std::string lines;
    PredictedText sum;
    int64_t right = 0, shortened = 0, found = 0;
    for (const std::string& text : texts) {
      lines += nlohmann::json{{"text", text}}.dump() + "\n";
      const PredictedText one = predict_tokens(model, text, limited ? 12 : 0);
      sum.loss += one.loss;
      sum.word_loss += one.word_loss;
      sum.tokens += one.tokens;
      right += one.right;
      shortened += limited && text.size() > 13;
      const size_t space = text.rfind(' ');
      found += greedy(model, text.substr(0, space), limited ? 3 : 0).find(text.substr(space + 1)) !=
               std::string::npos;
    }
    write("g/test.jsonl", lines);
    const auto result =
        evaluate_lambada(*language.model, language.info, (dir_.path() / "g").string());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->passages, 6);
    EXPECT_EQ(result->tokens, sum.tokens);
    // Weights are large and products round differently at other addresses: 1.4e-5 was seen.
    EXPECT_NEAR(result->loss, sum.loss / double(sum.tokens), 1e-4);
    EXPECT_NEAR(result->last_word_loss, sum.word_loss / 6, 1e-4);
    EXPECT_NEAR(result->accuracy, double(right) / 6, 1e-12);
    EXPECT_NEAR(*result->official_accuracy, double(found) / 6, 1e-12);
    EXPECT_EQ(result->shortened, shortened);
  }
}

// Words in one-hot vectors and blocks that add nothing: each word is predicted to come again.
LoadedLanguage repeater(const std::string& text) {
  LoadedLanguage language = tiny_language("softmax", "none");
  language.info.tokenizer = make_word_tokenizer(text, 16, "it");
  language.info.config.vocab = 16;
  language.model = make_language_model(language.info.config);
  const torch::NoGradGuard no_grad;
  for (auto& item : language.model->named_parameters()) {
    if (item.key().find("gamma") != std::string::npos) item.value().zero_();
    if (item.key().find("wte") != std::string::npos) item.value().copy_(10 * torch::eye(16));
  }
  return language;
}

TEST_F(LanguageFiles, LambadaKnowsRightFromWrong) {
  LoadedLanguage language = repeater("a dog Dog DOG dogs cat");
  const std::string path = write("h.jsonl",
                                 "{\"text\": \"a dog dog\"}\n"        // right
                                 "{\"text\": \"a dog cat\"}\n"        // wrong
                                 "{\"text\": \"a Dog DOG\"}\n"        // right but for capitals
                                 "{\"text\": \"a dogs dog\"}\n"       // contained
                                 "{\"text\": \"a dog cat cat\"}\n");  // right
  auto result = evaluate_lambada(*language.model, language.info, path);
  EXPECT_DOUBLE_EQ(result->accuracy, 0.4);
  EXPECT_DOUBLE_EQ(*result->official_accuracy, 0.8);
  EXPECT_EQ(result->tokens, 11);
  LambadaOptions options;
  options.generate = false;
  options.limit = 2;
  result = evaluate_lambada(*language.model, language.info, path, options);
  EXPECT_EQ(result->passages, 2);
  EXPECT_DOUBLE_EQ(result->accuracy, 0.5);
  EXPECT_FALSE(result->official_accuracy);
  std::atomic<bool> stop = true;
  options.stop = &stop;
  EXPECT_FALSE(evaluate_lambada(*language.model, language.info, path, options));
}

TEST_F(LanguageFiles, LambadaRefusesWhatHasNoLastWord) {
  const auto refused = [&](const std::string& text) {
    const std::string path = write("i.jsonl", nlohmann::json{{"text", text}}.dump());
    return refusal([&] { evaluate_lambada(*language_.model, language_.info, path); });
  };
  for (const char* text : {"", "word", "word ", " word"}) {
    expect_part(refused(text), "i.jsonl' line 1 has no last word");
  }
  expect_part(refused("context " + std::string(20, 'w')),
              "a last word of 21 tokens, beyond the model's context of 12");
  const std::string good = write("j.jsonl", "{\"text\": \"a b\"}");
  LambadaOptions options;
  options.new_tokens = 13;
  expect_part(refusal([&] { evaluate_lambada(*language_.model, language_.info, good, options); },
                      ErrorKind::kUsage),
              "does not hold 13 new ones");
  options.limit = -5;
  expect_part(refusal([&] { evaluate_lambada(*language_.model, language_.info, good, options); },
                      ErrorKind::kUsage),
              "at least one passage");
  options.limit = 1;
  options.new_tokens = 0;
  expect_part(refusal([&] { evaluate_lambada(*language_.model, language_.info, good, options); },
                      ErrorKind::kUsage),
              "one new token");
  expect_part(
      refusal([&] { evaluate_lambada(*language_.model, language_.info, dir_.path().string()); }),
      "holds 2 .jsonl files");
  language_.info.tokenizer = nullptr;
  expect_part(refusal([&] { evaluate_lambada(*language_.model, language_.info, good); }),
              "has no tokenizer");
}

TEST_F(LanguageFiles, ChoicesAreScoredByTheWholeText) {
  const std::vector<std::string> choices = {"on", "a", "three"};
  for (const char* positions : {"learned", "none"}) {
    LoadedLanguage language = tiny_language("tssa", positions);
    for (const std::string text : {"it XXXXX ok", "_____ goes well", "no", "quite long, XXXXX"}) {
      size_t best = 0;
      std::vector<double> sums;
      const bool limited = positions == std::string("learned");
      const auto filled = [&](const std::string& choice) {
        for (const std::string blank : {"XXXXX", "_____"}) {
          if (const size_t at = text.find(blank); at != text.npos) {
            return text.substr(0, at) + choice + text.substr(at + 5);
          }
        }
        return text + " " + choice;
      };
      const auto longest = static_cast<int64_t>(filled("three").size());
      for (const std::string& choice : choices) {
        Ids ids = bytes_of(filled(choice));
        if (limited && longest > 13) ids.erase(ids.begin(), ids.begin() + (longest - 13));
        double sum = 0;
        for (size_t t = 1; t < ids.size(); ++t) {
          sum += loss_of(*language.model, Ids(ids.begin(), ids.begin() + int64_t(t)), ids[t]);
        }
        sums.push_back(sum);
        if (sum < sums[best]) best = sums.size() - 1;
      }
      for (const size_t answer : {best, (best + 1) % choices.size()}) {
        nlohmann::json row = {{"text", text}, {"choices", choices}, {"answer", answer}};
        const auto result =
            evaluate_choices(*language.model, language.info, write("k.jsonl", row.dump()));
        EXPECT_EQ(result->accuracy, answer == best ? 1 : 0) << text << answer;
        EXPECT_EQ(result->shortened, limited && longest > 13 ? 1 : 0) << text;
        EXPECT_DOUBLE_EQ(result->chance, 1.0 / 3);
      }
    }
  }
}

TEST_F(LanguageFiles, ChoicesCanBeWrittenInSeveralWays) {
  LoadedLanguage language = repeater("a dog cat");
  const std::string path = write(
      "l.jsonl",
      "{\"prompt\": \"dog XXXXX dog\", \"choices\": [\"cat\", \"dog\"], \"answer\": \"dog\"}\n"
      "{\"context\": \"dog\", \"choices\": [\"cat\", \"dog\", \"a\"], \"answer\": 1}\n"
      "{\"text\": \"_____ cat\", \"choices\": [\"dog\", \"cat\"], \"answer\": 0, \"id\": 7}\n");
  const auto result = evaluate_choices(*language.model, language.info, path);
  EXPECT_EQ(result->questions, 3);
  EXPECT_DOUBLE_EQ(result->accuracy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(result->chance, (0.5 + 1.0 / 3 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(evaluate_choices(*language.model, language.info, path, 2)->accuracy, 1);
  for (const int64_t limit : {0, -5}) {
    expect_part(refusal([&] { evaluate_choices(*language.model, language.info, path, limit); },
                        ErrorKind::kUsage),
                "at least one question");
  }
}

TEST_F(LanguageFiles, RefusesBadChoices) {
  const auto refused = [&](const nlohmann::json& row) {
    const std::string path = write("m.jsonl", row.dump());
    const std::string message =
        refusal([&] { evaluate_choices(*language_.model, language_.info, path); });
    expect_part(message, "m.jsonl' line 1");
    return message;
  };
  const nlohmann::json good = {{"text", "a XXXXX"}, {"choices", {"b", "c"}}, {"answer", 0}};
  const auto changed = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json row = good;
    row[key] = value;
    return refused(row);
  };
  expect_part(changed("prompt", "b"), "one of \"text\"");
  expect_part(changed("text", 5), "lacks \"text\"");
  expect_part(changed("text", "XXXXX and XXXXX"), "more than one blank");
  expect_part(changed("text", "XXXXX and _____"), "more than one blank");
  for (const auto& choices :
       {nlohmann::json("b"), nlohmann::json({"b"}), nlohmann::json({"b", "b"}),
        nlohmann::json({"b", ""}), nlohmann::json({"b", 5})}) {
    expect_part(changed("choices", choices), "two or more different strings");
  }
  for (const auto& answer : {nlohmann::json(2), nlohmann::json(-1), nlohmann::json("d"),
                             nlohmann::json(0.5), nlohmann::json()}) {
    expect_part(changed("answer", answer), "needs an \"answer\"");
  }
  expect_part(changed("choices", {"b", std::string(30, 'c')}), "too long for the model's context");
}

TEST(LanguageEval, TheRealLambadaIsRead) {
  TOST_SHARED_OR_SKIP(path, "data/lambada");
  LoadedLanguage language = tiny_language("tssa", "none");
  LambadaOptions options;
  options.generate = false;
  options.limit = 40;
  const auto result = evaluate_lambada(*language.model, language.info, path.string(), options);
  EXPECT_EQ(result->passages, 40);
  EXPECT_GT(result->loss, 3);  // a random model
  EXPECT_EQ(result->accuracy, 0);
}

}  // namespace
}  // namespace tost
