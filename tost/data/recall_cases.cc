#include "tost/data/recall_cases.h"

#include <algorithm>
#include <charconv>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

constexpr int64_t kMostCases = 1024, kMostCount = int64_t{1} << 40;

std::vector<std::string> parts_of(const std::string& text, const std::string& what) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  if (std::ssize(parts) > kMostCases) {
    fail_usage(what, " has ", parts.size(), " values; at most ", kMostCases, " are possible.");
  }
  return parts;
}

template <class T>
bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

std::vector<int64_t> parse_counts(const std::string& text, const std::string& what) {
  std::vector<int64_t> counts;
  for (std::string part : parts_of(text, what)) {
    const bool thousands = ends_with(part, "k");
    if (thousands) part.pop_back();
    int64_t value = 0;
    if (!read_number(part, value) || value < 1 || value > kMostCount) {
      fail_usage(what, " is '", text,
                 "' but must be whole numbers of at least 1 with commas between, such as 64,128 "
                 "or 1k,16k.");
    }
    counts.push_back(thousands ? value * 1024 : value);
  }
  return counts;
}

std::vector<double> parse_shares(const std::string& text, const std::string& what) {
  std::vector<double> shares;
  for (const std::string& part : parts_of(text, what)) {
    double value = 0;
    if (!read_number(part, value) || !(value >= 0 && value <= 1)) {
      fail_usage(what, " is '", text,
                 "' but must be numbers from 0 to 1 with commas between, such as 0,0.5,1.");
    }
    shares.push_back(value);
  }
  return shares;
}

std::vector<RecallCase> parse_recall_cases(const std::string& lengths, const std::string& pairs) {
  const auto all_lengths = parse_counts(lengths, "lengths"),
             all_pairs = parse_counts(pairs, "pairs");
  const size_t count = std::max(all_lengths.size(), all_pairs.size());
  const auto fits = [&](size_t size) { return size == 1 || size == count; };
  if (!fits(all_lengths.size()) || !fits(all_pairs.size())) {
    fail_usage("lengths has ", all_lengths.size(), " values and pairs ", all_pairs.size(),
               "; give as many of both, or one of either.");
  }
  std::vector<RecallCase> cases;
  for (size_t i = 0; i < count; ++i) {
    cases.push_back({.length = all_lengths[all_lengths.size() == 1 ? 0 : i],
                     .pairs = all_pairs[all_pairs.size() == 1 ? 0 : i]});
  }
  return cases;
}

std::vector<RecallCase> parse_needle_cases(const std::string& lengths, const std::string& depths) {
  if (depths.empty()) return parse_recall_cases(lengths, "1");
  const auto all_lengths = parse_counts(lengths, "lengths");
  std::vector<RecallCase> cases;
  for (const double depth : parse_shares(depths, "depths")) {
    for (const int64_t length : all_lengths) cases.push_back({.length = length, .depth = depth});
  }
  return cases;
}

}  // namespace tost
