// ListOps: the rules, both files' forms, and the generator against the official one's output.
#include "tost/data/listops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tests/testing/shared.h"
#include "tost/data/data_test_util.h"
#include "tost/data/sequence_text.h"

namespace tost {
namespace {

using namespace tost::testing;
using ListOpsFile = FolderTest;

int value_of(const std::string& text) {
  std::string error;
  const std::string code = parse_listops(text, error);
  EXPECT_EQ(error, "") << text;
  return listops_value(code);
}

std::string wrong_with(const std::string& text) {
  std::string error;
  parse_listops(text, error);
  return error;
}

// Operators that enclose each other at most, 0 for a digit.
int64_t depth_of(std::string_view code) {
  int64_t depth = 0, deepest = 0;
  for (char token : code) {
    if (token >= 10) depth += token == kListOpsClose ? -1 : 1;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

TEST(ListOpsTest, HandComputedValues) {
  EXPECT_EQ(value_of("7"), 7);
  EXPECT_EQ(value_of("[MIN 4 2 9 ]"), 2);
  EXPECT_EQ(value_of("[MAX 4 2 9 ]"), 9);
  EXPECT_EQ(value_of("[SM 4 2 9 ]"), 5);
  EXPECT_EQ(value_of("[MED 4 2 9 ]"), 4);
  EXPECT_EQ(value_of("[MED 4 2 9 7 ]"), 5);  // mean 5.5 of 4 and 7, truncated
  EXPECT_EQ(value_of("[MED 1 2 ]"), 1);
  EXPECT_EQ(value_of("[MED 3 ]"), 3);
  EXPECT_EQ(value_of("[MAX 2 9 [MIN 4 7 ] 0 ]"), 9);  // the example of arXiv 2011.04006
  EXPECT_EQ(value_of("[SM [MED 9 9 1 ] [MAX 3 [SM 8 8 ] ] 5 ]"), 0);  // 9 + 6 + 5
}

TEST(ListOpsTest, ParenthesesAreNoTokens) {
  std::string error;
  const std::string text = "( ( ( ( [SM 1 ) 2 ) ( ( ( [MIN 3 ) 4 ) ] ) ) ] )";
  const std::string code = parse_listops(text, error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(code, parse_listops("[SM 1 2 [MIN 3 4 ] ]", error));
  EXPECT_EQ(code, std::string({13, 1, 2, 10, 3, 4, 14, 14}));
  EXPECT_EQ(depth_of(code), 2);
  EXPECT_EQ(listops_text(code), text);
  EXPECT_EQ(listops_text(std::string(1, '\4')), "4");
}

TEST(ListOpsTest, AnyBlankSeparates) {
  EXPECT_EQ(value_of("[MIN 4\t2\n9 ]\r\n"), 2);
  EXPECT_EQ(value_of("\n 7\n"), 7);
  EXPECT_TRUE(contains(wrong_with("\n\t"), "empty"));
}

TEST(ListOpsTest, SaysWhatIsWrong) {
  EXPECT_TRUE(contains(wrong_with("[MIN 4 2"), "leaves 1 brackets open"));
  EXPECT_TRUE(contains(wrong_with("[MIN 4 2 ] ]"), "after a complete expression"));
  EXPECT_TRUE(contains(wrong_with("]"), "not opened"));
  EXPECT_TRUE(contains(wrong_with("[MIN ]"), "without arguments"));
  EXPECT_TRUE(contains(wrong_with("4 5"), "after a complete expression"));
  EXPECT_TRUE(contains(wrong_with(""), "empty"));
  EXPECT_TRUE(contains(wrong_with("( )"), "empty"));
  EXPECT_TRUE(contains(wrong_with("[MUL 1 2 ]"), "'[MUL'"));
  EXPECT_TRUE(contains(wrong_with("[MIN 12 2 ]"), "'12'"));
  EXPECT_TRUE(contains(wrong_with(std::string("[MIN 1\0 2 ]", 11)), "\\x00"));
  EXPECT_TRUE(contains(wrong_with("( [MIN 4 2 ]"), "leaves 1 parentheses open"));
  EXPECT_TRUE(contains(wrong_with(") ( 4"), "not opened"));
}

TEST(ListOpsTest, DeepNestingNeedsNoStack) {
  constexpr int kDepth = 200'000;
  std::string text;
  for (int k = 0; k < kDepth; ++k) text += "[MAX 1 ";
  text += "3";
  for (int k = 0; k < kDepth; ++k) text += " ]";
  EXPECT_EQ(value_of(text), 3);
  std::string error;
  EXPECT_EQ(depth_of(parse_listops(text, error)), kDepth);
}

TEST_F(ListOpsFile, BothFormsAndTheirErrors) {
  const auto path = [&](const char* name) { return (folder_ / name).string(); };
  const auto refused = [&](const std::string& text) {
    write("bad.tsv", text);
    try {
      read_listops(path("bad.tsv"));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return std::string(error.what());
    }
    return std::string("read");
  };
  write("lra.tsv", "Source\tTarget\r\n( ( ( [MIN 4 ) 2 ) ] )\t2\r\n7\t7\r\n");
  write("nyu.tsv", "2\t[MIN 4 2 ]\n7\t7\n\n");
  for (const char* name : {"lra.tsv", "nyu.tsv"}) {
    const StoredSequences data(read_listops(path(name)), 0);
    ASSERT_EQ(data.size(), 2) << name;
    EXPECT_EQ(data.sample(0).tokens, (std::vector<int32_t>{11, 5, 3, 15}));
    EXPECT_EQ(data.label(0), 2);
    EXPECT_EQ(data.classes().size(), 10u);
  }
  EXPECT_TRUE(contains(refused("Source\tTarget\n7\t7\n[MIN 4 2\t2\n"), "Line 3 of"));
  EXPECT_TRUE(contains(refused("7\t7\n2\n"), "has 1 columns"));
  EXPECT_TRUE(contains(refused("7\t7\n12\t2\n"), "the label '12'"));
  EXPECT_TRUE(
      contains(refused("7\t7\n3\t[MIN 4 2 ]\n"), "has the label 3, but its expression is 2"));
  EXPECT_TRUE(contains(refused("7\t7\n\n7\t7\n"), "Line 2 of"));
  EXPECT_TRUE(contains(refused(""), "is empty"));
  EXPECT_TRUE(contains(refused("Source\tTarget\n"), "no samples"));
  EXPECT_TRUE(
      contains(refused("7\t7\n1\t" + std::string(TsvFile::kMaxLine, ' ') + "1"), "longer than"));
}

TEST(ListOpsTest, RealFilesHaveTheStatedValues) {
  TOST_SHARED_OR_SKIP(folder, "data/listops");
  int64_t count = 0;
  // Reading compares every label with the expression's value.
  for (const char* name : {"lra_basic_val.tsv", "lra_basic_test.tsv", "nyu_test_d20s.tsv"}) {
    count += static_cast<int64_t>(read_listops((folder / name).string()).labels.size());
  }
  EXPECT_EQ(count, 10'400);
}

TEST(ListOpsTest, WritesWhatTheOfficialGeneratorWrites) {
  TOST_SHARED_OR_SKIP(folder, "data/listops");
  const TsvFile file((folder / "lra_basic_val.tsv").string());
  file.each([](const TsvRow& row) {
    if (row.line == 1) return;
    std::string error;
    EXPECT_EQ(listops_text(parse_listops(row.columns[0], error)), row.columns[0]);
  });
}

// Means over 600 generated and 400 official expressions, as multiples of their standard error.
TEST(ListOpsTest, DrawsAreDistributedAsTheOfficialGenerators) {
  TOST_SHARED_OR_SKIP(folder, "data/listops");
  std::vector<std::string> official;
  for (const char* name : {"lra_basic_val.tsv", "lra_basic_test.tsv"}) {
    const SequenceRows rows = read_listops((folder / name).string());
    official.insert(official.end(), rows.texts.begin(), rows.texts.end());
  }
  const SequenceRows made = generated_listops({}, 2, "train", 600, serial_for);
  const std::vector<std::string> generated(made.texts.begin(), made.texts.end());
  using Measure = std::function<double(const std::string& code)>;
  const auto share_of = [](char token) -> Measure {
    return [token](const std::string& code) {
      const auto closed = std::count(code.begin(), code.end(), char(kListOpsClose));
      return double(std::count(code.begin(), code.end(), token)) / double(closed);
    };
  };
  const Measure tokens = [](const std::string& code) { return double(code.size()); };
  const Measure depth = [](const std::string& code) { return double(depth_of(code)); };
  const auto moments = [](const std::vector<std::string>& codes, const Measure& measure) {
    double sum = 0, squares = 0;
    for (const std::string& code : codes) sum += measure(code);
    const double mean = sum / double(codes.size());
    for (const std::string& code : codes) squares += std::pow(measure(code) - mean, 2);
    return std::pair(mean, squares / double(codes.size()) / double(codes.size()));
  };
  for (const Measure& measure : {tokens, depth, share_of(kListOpsMin), share_of(kListOpsMax),
                                 share_of(kListOpsMed), share_of(kListOpsSum)}) {
    const auto [a, a_variance] = moments(generated, measure);
    const auto [b, b_variance] = moments(official, measure);
    EXPECT_LE(std::abs(a - b), 3.5 * std::sqrt(a_variance + b_variance));
  }
}

TEST(ListOpsTest, DrawsArePureFunctionsOfTheirPlace) {
  const ListOpsRules rules;
  const SequenceRows whole = generated_listops(rules, 3, "train", 12, serial_for);
  const auto backwards = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
    for (int64_t i = tasks; i-- > 0;) body(i, i + 1);
  };
  const SequenceRows again = generated_listops(rules, 3, "train", 9, backwards);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(whole.texts[i], again.texts[i]);
  EXPECT_NE(whole.texts[0], whole.texts[1]);
  EXPECT_NE(whole.texts[0], generated_listops(rules, 4, "train", 1, serial_for).texts[0]);
  EXPECT_NE(whole.texts[0], generated_listops(rules, 3, "test", 1, serial_for).texts[0]);
}

TEST(ListOpsTest, DrawsKeepTheRules) {
  const ListOpsRules rules{5, 4, 10, 60, 0.25};
  const SequenceRows rows = generated_listops(rules, 1, "train", 500, serial_for);
  std::map<int64_t, int> depths;
  for (size_t i = 0; i < rows.texts.size(); ++i) {
    EXPECT_GT(rows.texts[i].size(), 10u);
    EXPECT_LT(rows.texts[i].size(), 60u);
    std::string error;
    EXPECT_EQ(parse_listops(listops_text(rows.texts[i]), error), rows.texts[i]);
    EXPECT_EQ(error, "");
    EXPECT_EQ(rows.labels[i], listops_value(rows.texts[i]));
    ++depths[depth_of(rows.texts[i])];
  }
  EXPECT_EQ(depths.rbegin()->first, 4);  // of five levels the last has digits alone
}

TEST(ListOpsTest, RefusesRulesThatNothingMeets) {
  EXPECT_THROW(check_listops_rules({0, 10, 500, 2000, 0.25}), Error);
  EXPECT_THROW(check_listops_rules({10, 1, 500, 2000, 0.25}), Error);
  EXPECT_THROW(check_listops_rules({10, 10, 500, 501, 0.25}), Error);
  EXPECT_THROW(check_listops_rules({10, 10, -1, 2000, 0.25}), Error);
  EXPECT_THROW(check_listops_rules({10, 10, 5, int64_t{1} << 40, 0.25}), Error);
  EXPECT_THROW(check_listops_rules({3, 4, 30, 100, 0.25}), Error);  // 2 + 4 (2 + 4) = 26
  EXPECT_NO_THROW(check_listops_rules({3, 4, 25, 100, 0.25}));
  EXPECT_NO_THROW(check_listops_rules({}));
}

}  // namespace
}  // namespace tost
