#include "tost/data/recall_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tost/base/file.h"
#include "tost/data/recall_test_util.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

using testing::error_of;
using testing::mentions;

std::string text_of(const RecallSample& sample) {
  return {sample.ids.begin(), sample.ids.end()};
}

void expect_equal(const RecallSample& a, const RecallSample& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.distances, b.distances);
}

TEST(Recall, SamplesAreAPureFunctionOfSeedSplitAndIndex) {
  for (const std::string& task : recall_tasks()) {
    const auto a = open_recall({.task = task, .seed = 3}),
               b = open_recall({.task = task, .seed = 3});
    const auto other = open_recall({.task = task, .seed = 4});
    const RecallCase size{.length = 160, .pairs = 8};
    const auto sample = a->sample(size, "train", 5);
    a->sample(size, "train", 6);
    expect_equal(sample, b->sample(size, "train", 5));
    expect_equal(sample, a->sample(size, "train", 5));
    EXPECT_NE(sample.ids, a->sample(size, "train", 6).ids) << task;
    EXPECT_NE(sample.ids, a->sample(size, "test", 5).ids) << task;
    EXPECT_NE(sample.ids, a->sample(size, "validation", 5).ids) << task;
    EXPECT_NE(sample.ids, other->sample(size, "train", 5).ids) << task;
    EXPECT_EQ(sample.ids.size(), 160u);
    EXPECT_EQ(sample.targets.size(), 160u);
    EXPECT_LT(*std::max_element(sample.ids.begin(), sample.ids.end()), a->vocab());
  }
}

TEST(Recall, DistancesLeadToTheAnswer) {
  for (const std::string task : {"mqar", "needle", "copying"}) {
    for (const bool random : {false, true}) {
      const auto source = open_recall({.task = task,
                                       .vocab = 40,
                                       .random_filler = random,
                                       .distractors = 3,
                                       .questions = 2,
                                       .gap = 6});
      for (int64_t i = 0; i < 40; ++i) {
        expect_answers_where_told(source->sample({.length = 300, .pairs = 12}, "train", i));
      }
    }
  }
}

// The rules of the official generator (HazyResearch/zoology), each by brute force.
TEST(Mqar, FollowsTheRules) {
  const auto source = open_recall({.vocab = 30, .random_filler = false});
  for (int64_t i = 0; i < 100; ++i) {
    const RecallSample s = source->sample({.length = 64, .pairs = 9}, "train", i);
    std::map<int32_t, int32_t> memory;
    std::set<int32_t> values;
    for (size_t pair = 0; pair < 9; ++pair) {
      const int32_t key = s.ids[2 * pair], value = s.ids[2 * pair + 1];
      EXPECT_TRUE(key >= 1 && key < 15) << key;
      EXPECT_TRUE(value >= 15 && value < 30) << value;
      EXPECT_TRUE(memory.emplace(key, value).second) << "a key twice";
      EXPECT_TRUE(values.insert(value).second) << "a value twice";
    }
    for (size_t t = 0; t < 64; ++t) {
      if (t < 18 || t % 2 == 1) {
        EXPECT_EQ(s.targets[t], -1);
        if (t >= 18) {
          EXPECT_EQ(s.ids[t], 0);
        }
      } else if (s.ids[t] == 0) {
        EXPECT_EQ(s.targets[t], -1);
      } else {
        ASSERT_TRUE(memory.count(s.ids[t])) << "every key is asked for once";
        EXPECT_EQ(s.targets[t], memory[s.ids[t]]);
        memory.erase(s.ids[t]);
      }
    }
    EXPECT_TRUE(memory.empty());
  }
}

TEST(Mqar, FillerIsOfTheWholeVocabulary) {
  const auto plain = open_recall({.vocab = 12, .random_filler = false});
  const auto filled = open_recall({.vocab = 12});
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 50; ++i) {
    const auto a = plain->sample({.length = 32, .pairs = 2}, "train", i);
    const auto b = filled->sample({.length = 32, .pairs = 2}, "train", i);
    EXPECT_EQ(a.targets, b.targets);
    for (size_t t = 0; t < 32; ++t) {
      if (a.ids[t] != 0) {
        EXPECT_EQ(a.ids[t], b.ids[t]);
      }
      if (a.ids[t] == 0) seen.insert(b.ids[t]);
    }
  }
  EXPECT_EQ(seen.size(), 12u);
}

// With power a the k-th place is drawn first with probability k^(a-1) / sum.
TEST(Mqar, QueriesFollowThePowerLaw) {
  for (const double power : {0.01, 1.0}) {
    const auto source = open_recall({.vocab = 64, .power = power, .random_filler = false});
    std::vector<double> counts(7);
    constexpr int64_t kSamples = 4000;
    for (int64_t i = 0; i < kSamples; ++i) {
      const auto s = source->sample({.length = 16, .pairs = 1}, "train", i);
      for (size_t place = 0; place < 7; ++place) counts[place] += s.ids[2 + 2 * place] != 0;
    }
    double sum = 0;
    for (int k = 1; k <= 7; ++k) sum += std::pow(k, power - 1);
    for (int k = 1; k <= 7; ++k) {
      EXPECT_NEAR(counts[size_t(k - 1)] / kSamples, std::pow(k, power - 1) / sum, 0.025) << k;
    }
  }
}

TEST(Needle, StandsAtItsDepthAndIsAskedForAtTheEnd) {
  const auto source = open_recall({.task = "needle"});
  for (const double depth : {0.0, 0.5, 1.0}) {
    const RecallCase size{.length = 2000, .depth = depth};
    const RecallSample s = source->sample(size, "test", 7);
    const std::string text = text_of(s);
    const size_t first = text.find("The code of "), last = text.rfind("\nThe code of ");
    ASSERT_NE(first, std::string::npos);
    ASSERT_GT(last, first);
    EXPECT_NEAR(double(first) / 1930, depth, 0.06);
    const std::string key = text.substr(first + 12, text.find(" is ", first) - first - 12);
    EXPECT_EQ(text.substr(last + 1, 12 + key.size() + 4), "The code of " + key + " is ");
    const std::string code = text.substr(first + 12 + key.size() + 4, 5);
    EXPECT_EQ(std::count_if(code.begin(), code.end(), [](char c) { return c >= '0' && c <= '9'; }),
              5);
    EXPECT_EQ(text.substr(text.size() - 4), code.substr(0, 4)) << "the last digit is not read";
    for (size_t digit = 0; digit < 5; ++digit) EXPECT_EQ(s.targets[1995 + digit], code[digit]);
    EXPECT_EQ(s.distances.size(), 5u);
    EXPECT_EQ(text.find_first_of("0123456789"), first + 12 + key.size() + 4);
  }
  // The same needle in the same haystack.
  const auto a = source->sample({.length = 2000, .depth = 0}, "test", 7);
  const auto b = source->sample({.length = 2000, .depth = 1}, "test", 7);
  EXPECT_EQ(a.targets, b.targets);
}

TEST(Needle, DistractorsHaveOtherKeys) {
  const auto source = open_recall({.task = "needle", .distractors = 5, .questions = 6});
  for (int64_t i = 0; i < 20; ++i) {
    const RecallSample s = source->sample({.length = 900}, "train", i);
    std::string text = text_of(s);
    std::set<std::string> keys;
    for (size_t at = text.find("The code of "); at < text.find("\nThe code of ");
         at = text.find("The code of ", at + 1)) {
      EXPECT_TRUE(keys.insert(text.substr(at + 12, text.find(" is ", at) - at - 12)).second);
    }
    EXPECT_EQ(keys.size(), 6u);
    EXPECT_EQ(s.distances.size(), 30u);
  }
}

TEST(Needle, TakesItsHaystackFromAText) {
  const testing::TempDir dir;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "sheep grass ";
  write_file_atomic(dir.path() / "hay.txt", text);
  const auto source = open_recall({.task = "needle", .text = (dir.path() / "hay.txt").string()});
  const std::string found = text_of(source->sample({.length = 500, .depth = 0.5}, "test", 1));
  EXPECT_TRUE(mentions(found, "grass sheep"));
  EXPECT_FALSE(mentions(found, "The old"));
  EXPECT_TRUE(mentions(error_of([&] { source->check({.length = 100'000}); }), "3600 bytes"));
  EXPECT_NE(error_of([] { open_recall({.task = "needle", .text = "/nowhere/hay"}); }), "");
}

TEST(Copying, RepeatsTheStringBehindTheSign) {
  const auto source = open_recall({.task = "copying", .vocab = 10, .gap = 3});
  const RecallSample s = source->sample({.length = 13}, "train", 0);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_GE(s.ids[i], 2);
    EXPECT_EQ(s.targets[8 + i], s.ids[i]);
    EXPECT_EQ(s.targets[i], -1);
    if (i > 0) {
      EXPECT_EQ(s.ids[8 + i], s.ids[i - 1]);
    }
  }
  EXPECT_EQ(std::vector<int32_t>(s.ids.begin() + 5, s.ids.begin() + 9),
            (std::vector<int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(s.distances, std::vector<int64_t>(5, 8));
}

TEST(StateTracking, ParityIsTheSumOfBits) {
  const auto source = open_recall({.task = "parity"});
  EXPECT_EQ(source->vocab(), 2);
  const RecallSample s = source->sample({.length = 200}, "train", 3);
  int32_t ones = 0;
  for (size_t i = 0; i < 200; ++i) {
    ones += s.ids[i];
    EXPECT_EQ(s.targets[i], ones % 2);
    EXPECT_EQ(s.distances[i], int64_t(i));
  }
  EXPECT_TRUE(ones > 60 && ones < 140) << ones;
}

// Against the matrices of the permutations 012, 021, 102, 120, 201, 210.
TEST(StateTracking, S3IsTheProductOfPermutations) {
  const auto source = open_recall({.task = "s3"});
  EXPECT_EQ(source->vocab(), 6);
  const std::vector<std::string> images{"012", "021", "102", "120", "201", "210"};
  std::set<int32_t> seen;
  for (int64_t index = 0; index < 5; ++index) {
    const RecallSample s = source->sample({.length = 60}, "train", index);
    std::string state = "012";
    for (size_t i = 0; i < 60; ++i) {
      for (char& c : state) c = images[size_t(s.ids[i])][size_t(c - '0')];
      EXPECT_EQ(images[size_t(s.targets[i])], state);
      seen.insert(s.ids[i]);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Recall, RefusesWhatCannotBe) {
  const auto refused = [](const RecallSpec& spec, const RecallCase& size, const char* word) {
    const std::string error = error_of([&] { open_recall(spec)->check(size); });
    EXPECT_TRUE(mentions(error, word)) << word << ": " << error;
  };
  refused({.task = "mqr"}, {}, "Did you mean 'mqar'");
  refused({}, {.length = 30, .pairs = 8}, "at least 32");
  refused({}, {.length = 33, .pairs = 8}, "odd");
  refused({.vocab = 16}, {.length = 64, .pairs = 8}, "at least 18");
  refused({.vocab = 2}, {}, "vocab");
  refused({.power = 0}, {}, "power");
  refused({}, {.pairs = 0}, "pair");
  refused({}, {.length = int64_t{1} << 40}, "limit");
  refused({.task = "s3"}, {.length = 0}, "at least 1");
  refused({.task = "needle"}, {.length = 40}, "at least 58");
  refused({.task = "needle"}, {.length = 400, .depth = 1.5}, "depth of 1.5");
  refused({.task = "needle"}, {.length = 400, .depth = -0.5}, "depth");
  refused({.task = "needle", .distractors = 100}, {}, "distractors");
  refused({.task = "needle", .questions = 2}, {}, "questions");
  refused({.task = "copying", .vocab = 2}, {}, "vocab");
  refused({.task = "copying", .gap = -1}, {}, "gap");
  refused({.task = "copying", .gap = 5}, {.length = 6}, "at least 7");
  refused({.task = "copying", .gap = 5}, {.length = 10}, "odd");
  const auto source = open_recall({});
  EXPECT_TRUE(mentions(error_of([&] { source->sample({}, "tst", 0); }), "test"));
}

// The shortest length that is said to fit does fit.
TEST(Needle, TheLeastLengthFits) {
  const auto source = open_recall({.task = "needle", .distractors = 2, .questions = 2});
  const std::string error = error_of([&] { source->check({.length = 1}); });
  const int64_t least = std::stoll(error.substr(error.find("at least ") + 9));
  for (int64_t i = 0; i < 200; ++i) {
    expect_answers_where_told(source->sample({.length = least}, "train", i));
  }
  EXPECT_NE(error_of([&] { source->check({.length = least - 1}); }), "");
}

TEST(RecallCases, ListsAreReadStrictly) {
  EXPECT_EQ(parse_counts("64, 128", "lengths"), (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(parse_counts("1k,16k", "lengths"), (std::vector<int64_t>{1024, 16384}));
  EXPECT_EQ(parse_shares("0,0.5,1", "depths"), (std::vector<double>{0, 0.5, 1}));
  for (const char* bad : {"", "a", "1,", "0", "-3", "1.5", "1kk", "99999999999999999999"}) {
    EXPECT_TRUE(mentions(error_of([&] { parse_counts(bad, "lengths"); }), "lengths")) << bad;
  }
  for (const char* bad : {"", "1.1", "-0.1", "nan", "x"}) {
    EXPECT_TRUE(mentions(error_of([&] { parse_shares(bad, "depths"); }), "depths")) << bad;
  }
  const auto grid = parse_needle_cases("64,1k", "0,0.5");
  ASSERT_EQ(grid.size(), 4u);
  EXPECT_EQ(grid[1], (RecallCase{.length = 1024, .depth = 0}));
  EXPECT_EQ(grid[2], (RecallCase{.length = 64, .depth = 0.5}));
  EXPECT_EQ(parse_needle_cases("64", "")[0].depth, -1);
  const auto cases = parse_recall_cases("64", "4,8");
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1], (RecallCase{.length = 64, .pairs = 8}));
  EXPECT_EQ(parse_recall_cases("64,128", "4,8")[1], (RecallCase{.length = 128, .pairs = 8}));
  EXPECT_TRUE(mentions(error_of([] { parse_recall_cases("1,2", "1,2,3"); }), "2 values"));
}

TEST(RecallBatch, RowsAreTheSamples) {
  const auto source = open_recall({});
  const RecallCase size{.length = 32, .pairs = 4};
  const RecallBatch batch = make_recall_batch(*source, size, "test", 10, 3);
  EXPECT_EQ(batch.ids.sizes(), (torch::IntArrayRef{3, 32}));
  EXPECT_EQ(batch.distances.size(), 12u);
  const RecallSample sample = source->sample(size, "test", 11);
  for (int64_t t = 0; t < 32; ++t) {
    EXPECT_EQ(batch.ids[1][t].item<int64_t>(), sample.ids[size_t(t)]);
    EXPECT_EQ(batch.targets[1][t].item<int64_t>(), sample.targets[size_t(t)]);
  }
  EXPECT_EQ(batch.distances[4], sample.distances[0]);
}

}  // namespace
}  // namespace tost
