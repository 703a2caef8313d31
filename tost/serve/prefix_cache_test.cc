#include "tost/serve/prefix_cache.h"

#include <gtest/gtest.h>

namespace tost {
namespace {

Array row_of(int64_t width, double value) {
  Array row = Array::empty({1, width});
  std::fill_n(row.mutable_data(), width, float(value));
  return row;
}

LanguageState state_of(int64_t position, double value) {
  LanguageState state{.position = position};
  Array statistics = Array::empty({1, 8}, TorchDtype::kFloat64);
  std::fill_n(statistics.mutable_data<double>(), 8, value);
  state.blocks.push_back({{"statistics", statistics}});
  return state;
}

void clear(LanguageState& state) {
  std::fill_n(state.blocks[0]["statistics"].mutable_data<double>(), 8, 0.0);
}

std::vector<int32_t> text(int64_t pieces, int32_t last = 1) {
  std::vector<int32_t> ids(size_t(pieces * kPrefixPiece), 1);
  if (!ids.empty()) ids.back() = last;
  return ids;
}

void add(PrefixCache& cache, const std::vector<int32_t>& ids) {
  for (int64_t n = kPrefixPiece; n <= int64_t(ids.size()); n += kPrefixPiece) {
    cache.add(ids, n, state_of(n, double(n)), row_of(4, double(n)));
  }
}

TEST(PrefixCache, FindsTheLongestBeginning) {
  PrefixCache cache(1 << 20);
  EXPECT_EQ(cache.find(text(3)).tokens, 0);
  add(cache, text(3));
  EXPECT_EQ(cache.entries(), 3);
  EXPECT_EQ(cache.find(text(0)).tokens, 0);
  EXPECT_EQ(cache.find(text(5)).tokens, 3 * kPrefixPiece);
  EXPECT_EQ(cache.find(text(3, 2)).tokens, 2 * kPrefixPiece);
  auto longer = text(1);
  longer.push_back(1);
  const auto hit = cache.find(longer);
  EXPECT_EQ(hit.tokens, kPrefixPiece);
  EXPECT_EQ(hit.state.position, kPrefixPiece);
  EXPECT_EQ(hit.last.data()[0], float(kPrefixPiece));
}

TEST(PrefixCache, KnowsTheEndOfAPromptForThatPromptAlone) {
  PrefixCache cache(1 << 20);
  auto ids = text(2);
  add(cache, ids);
  ids.insert(ids.end(), {3, 4});
  const auto tokens = int64_t(ids.size());
  cache.add(ids, tokens, state_of(tokens, 7), row_of(9, 7.0));
  const auto hit = cache.find(ids);
  EXPECT_EQ(hit.tokens, tokens);
  EXPECT_EQ(hit.state.position, tokens);
  EXPECT_EQ(hit.last.shape(), (Array::Shape{1, 9}));
  auto longer = ids, shorter = ids, other = ids;
  longer.push_back(5);
  shorter.pop_back();
  other.back() = 5;
  for (const auto& prompt : {longer, shorter, other}) {
    const auto before = cache.find(prompt);
    EXPECT_EQ(before.tokens, 2 * kPrefixPiece);
    EXPECT_EQ(before.last.shape(), (Array::Shape{1, 4}));
  }
  using Ids = std::vector<int32_t>;
  cache.add(Ids{1, 2}, 2, state_of(2, 7), row_of(9, 0));  // less than a piece
  EXPECT_EQ(cache.find(Ids{1, 2}).tokens, 2);
  EXPECT_EQ(cache.find(Ids{1, 2, 3}).tokens, 0);
  EXPECT_EQ(cache.find(Ids{1}).tokens, 0);
}

TEST(PrefixCache, GivesCopies) {
  PrefixCache cache(1 << 20);
  auto state = state_of(kPrefixPiece, 5);
  cache.add(text(1), kPrefixPiece, state, row_of(4, 0));
  clear(state);
  auto hit = cache.find(text(1));
  clear(hit.state);
  EXPECT_EQ(cache.find(text(1)).state.blocks[0]["statistics"].data<double>()[7], 5);
}

TEST(PrefixCache, DropsTheLeavesUsedLeastRecently) {
  PrefixCache one(1 << 20);
  add(one, text(1));
  const int64_t bytes = one.bytes();
  PrefixCache cache(3 * bytes);
  add(cache, text(2));     // 1, 1-1
  add(cache, text(1, 7));  // 7
  cache.find(text(2));
  add(cache, text(1, 8));
  EXPECT_LE(cache.bytes(), 3 * bytes);
  EXPECT_EQ(cache.find(text(1, 7)).tokens, 0);
  EXPECT_EQ(cache.find(text(2)).tokens, 2 * kPrefixPiece);
  EXPECT_EQ(cache.find(text(1, 8)).tokens, kPrefixPiece);
  add(cache, text(1, 9));  // the leaf of 1-1 goes, and never what it stands on
  add(cache, text(1, 10));
  EXPECT_LE(cache.bytes(), 3 * bytes);
  EXPECT_EQ(cache.entries(), 3);
}

TEST(PrefixCache, WhatNeverFitsDropsNothing) {
  PrefixCache one(1 << 20);
  add(one, text(1));
  PrefixCache cache(one.bytes());
  add(cache, text(1));
  LanguageState large = state_of(kPrefixPiece, 1);
  large.blocks[0]["statistics"] = Array::zeros({1, 1000}, TorchDtype::kFloat64);
  cache.add(text(1, 7), kPrefixPiece, large, row_of(4, 0));
  EXPECT_EQ(cache.find(text(1, 7)).tokens, 0);
  EXPECT_EQ(cache.find(text(1)).tokens, kPrefixPiece);
}

TEST(PrefixCache, IsAsItWasWhereMemoryEnds) {
  PrefixCache cache(int64_t{1} << 60);
  auto state = state_of(kPrefixPiece, 5);
  state.blocks[0]["statistics"] =
      Array({int64_t{1} << 52}, TorchDtype::kUInt8, std::make_shared<char>(), {0});
  EXPECT_THROW(cache.add(text(1), kPrefixPiece, state, row_of(4, 0)), std::exception);
  EXPECT_EQ(cache.find(text(1)).tokens, 0);
  EXPECT_EQ(cache.bytes(), 0);
  add(cache, text(1));
  EXPECT_EQ(cache.find(text(1)).tokens, kPrefixPiece);
}

TEST(PrefixCache, CountsTheOverheadOfSmallEntries) {
  PrefixCache cache(1 << 20);
  for (int32_t id = 0; id < 100; ++id) {
    cache.add(std::vector<int32_t>{id}, 1, state_of(1, 1), row_of(4, 0));
  }
  // Two arrays of 64 and 16 bytes, each an object with its sizes, in a map or not.
  const auto objects = int64_t(2 * (sizeof(Array) + 2 * sizeof(int64_t)) + sizeof(std::string));
  EXPECT_GT(cache.bytes(), 100 * (80 + objects));
}

TEST(PrefixCache, WithoutBytesKeepsNothing) {
  PrefixCache cache(0);
  add(cache, text(2));
  EXPECT_EQ(cache.entries(), 0);
  EXPECT_EQ(cache.bytes(), 0);
}

}  // namespace
}  // namespace tost
