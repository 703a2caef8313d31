// Loss by both protocols against straightforward computations.
#include <gtest/gtest.h>

#include <cmath>

#include "tost/data/crop_batch.h"
#include "tost/engine/language_scores.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/eval_test_util.h"

namespace tost {
namespace {

using testing::expect_part;
using testing::Ids;
using testing::kSettings;
using testing::loss_of;
using testing::refusal;
using testing::some_ids;
using testing::source_of;
using testing::tiny_model;

// Windows by their definition: the first that reaches a token predicts it.
double usual_loss(LanguageModel& model, const Ids& ids, int64_t context, int64_t stride) {
  double sum = 0;
  for (int64_t target = 1; target < static_cast<int64_t>(ids.size()); ++target) {
    int64_t begin = 0;
    while (begin + context < target) begin += stride;
    sum += loss_of(model, Ids(ids.begin() + begin, ids.begin() + target),
                   ids[static_cast<size_t>(target)]);
  }
  return sum / static_cast<double>(ids.size() - 1);
}

TEST(LanguageLoss, UsualProtocolIsItsDefinition) {
  for (const auto& [mixer, positions] : kSettings) {
    const auto model = tiny_model(mixer, positions);
    for (const int64_t count : {2, 13, 27}) {
      const Ids ids = some_ids(count);
      for (const auto& [context, stride] :
           {std::pair<int64_t, int64_t>{12, 0}, {12, 12}, {7, 2}, {1, 0}}) {
        LanguageLossOptions options;
        options.context = context;
        options.stride = stride;
        options.batch = count % 3 + 1;
        const auto result = language_loss(*model, source_of(ids), 2 * count, options);
        const int64_t step = stride > 0 ? stride : std::max<int64_t>(1, context / 2);
        const double expected = usual_loss(*model, ids, context, step);
        ASSERT_TRUE(result);
        EXPECT_NEAR(result->loss, expected, 1e-5) << mixer << count << " " << context << stride;
        EXPECT_EQ(result->tokens, count - 1);
        EXPECT_NEAR(result->perplexity, std::exp(expected), 1e-3 * std::exp(expected));
        EXPECT_NEAR(*result->bits_per_byte,
                    expected * double(count - 1) / std::log(2.0) / double(2 * count), 1e-5);
        EXPECT_FALSE(result->standard_error);
      }
    }
  }
}

TEST(LanguageLoss, EnginesScoreAsTheModel) {
  for (const auto& [mixer, positions] : kSettings) {
    const auto model = tiny_model(mixer, positions);
    model->eval();
    const Ids ids = some_ids(200);
    const double plain = language_loss(*model, source_of(ids), 0, {})->loss;
    read_by_engine(model, Precision::kFp32);
    EXPECT_NEAR(language_loss(*model, source_of(ids), 0, {})->loss, plain, 1e-4) << mixer;
    read_by_engine(model, Precision::kInt8);
    const double rounded = language_loss(*model, source_of(ids), 0, {})->loss;
    EXPECT_NE(rounded, plain) << mixer;
    EXPECT_NEAR(rounded, plain, 0.05 * plain) << mixer;
  }
}

TEST(LanguageLoss, AWholeTextIsReadAsOneContext) {
  for (const char* mixer : {"tssa", "softmax"}) {
    const auto model = tiny_model(mixer, "none");
    const Ids ids = some_ids(40);
    LanguageLossOptions options;
    options.context = LanguageLossOptions::kWholeText;
    const auto whole = language_loss(*model, source_of(ids), 0, options);
    EXPECT_NEAR(whole->loss, usual_loss(*model, ids, 40, 40), 1e-5);
    EXPECT_FALSE(whole->bits_per_byte);
    // Across the pieces it is read in.
    const Ids many = some_ids(5000);
    options.context = 5000;
    const auto one_window = language_loss(*model, source_of(many), 0, options);
    options.context = LanguageLossOptions::kWholeText;
    EXPECT_NEAR(language_loss(*model, source_of(many), 0, options)->loss, one_window->loss, 1e-4);
  }
}

TEST(LanguageLoss, OfficialProtocolIsTheMeanOverCrops) {
  const auto model = tiny_model("tssa", "learned");
  const TokenSource source = source_of(some_ids(100));
  LanguageLossOptions options;
  options.protocol = "official";
  options.batch = 3;
  options.batches = 5;
  options.seed = 9;
  std::vector<double> means;
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < 5; ++i) {
    const auto [ids, targets] = crop_batch(source, 3, 12, 9, i);
    means.push_back(model->loss(ids, targets).item<double>());
  }
  const auto result = language_loss(*model, source, 100, options);
  const auto expected = torch::tensor(means, torch::kDouble);
  EXPECT_NEAR(result->loss, expected.mean().item<double>(), 1e-5);
  EXPECT_NEAR(*result->standard_error, expected.std().item<double>() / std::sqrt(5.0), 1e-5);
  EXPECT_EQ(result->tokens, 5 * 3 * 12);
  EXPECT_FALSE(result->bits_per_byte);
  EXPECT_EQ(language_loss(*model, source, 100, options)->loss, result->loss);
  options.seed = 10;
  EXPECT_NE(language_loss(*model, source, 100, options)->loss, result->loss);
}

TEST(LanguageLoss, LeavesTheModelAsItWas) {
  const auto model = tiny_model("tssa", "learned");
  model->train();
  std::atomic<bool> stop = false;
  LanguageLossOptions options;
  options.batch = 1;
  options.stop = &stop;
  std::vector<int64_t> done;
  options.progress = [&](int64_t tokens, int64_t total) {
    EXPECT_EQ(total, 59);
    done.push_back(tokens);
    stop = done.size() == 2;
  };
  EXPECT_FALSE(language_loss(*model, source_of(some_ids(60)), 0, options));
  EXPECT_EQ(done, (std::vector<int64_t>{12, 18}));
  EXPECT_TRUE(model->is_training());
}

TEST(LanguageLoss, RefusesImpossibleSettings) {
  const auto model = tiny_model("tssa", "learned");
  const TokenSource source = source_of(some_ids(60));
  const auto refused = [&](auto change) {
    LanguageLossOptions options;
    change(options);
    return refusal([&] { language_loss(*model, source, 0, options); }, ErrorKind::kUsage);
  };
  expect_part(refused([](auto& o) { o.protocol = "offical"; }), "'official'?");
  expect_part(refused([](auto& o) { o.context = 13; }), "this model takes 1 to 12");
  expect_part(refused([](auto& o) { o.context = -2; }), "-2 tokens is impossible");
  expect_part(refused([](auto& o) { o.context = -1; }), "positions 'none'");
  expect_part(refused([](auto& o) { o.stride = 13; }), "A stride of 13");
  expect_part(refused([](auto& o) { o.stride = -1; }), "A stride of -1");
  expect_part(refused([](auto& o) { o.batch = -1; }), "at least one window");
  expect_part(refused([](auto& o) { o.batches = 0; }), "at least one window");
  expect_part(refused([](auto& o) {
                o.protocol = "official";
                o.context = -1;
              }),
              "usual protocol");
}

TEST(LanguageLoss, RefusesTextThatDoesNotFit) {
  const auto model = tiny_model("tssa", "learned", 100);
  const auto refused = [&](const Ids& ids, const char* protocol) {
    LanguageLossOptions options;
    options.protocol = protocol;
    return refusal([&] { language_loss(*model, source_of(ids), 0, options); });
  };
  expect_part(refused({1}, "usual"), "it has 1 token; at least 2");
  expect_part(refused({}, "usual"), "it has 0 token");
  expect_part(refused(some_ids(12, 100), "official"), "fewer than the 12 + 1");
  expect_part(refused({1, 2, 100, 3}, "usual"), "outside the model's vocabulary of 100");
}

}  // namespace
}  // namespace tost
