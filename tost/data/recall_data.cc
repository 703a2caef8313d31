#include "tost/data/recall_data.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/dataset.h"
#include "tost/data/recall_source.h"

namespace tost {

std::vector<std::string> recall_tasks() {
  return {"mqar",
          "needle",
          "copying",
          "parity",
          "s3",
          "in-context-recall",
          "noisy-in-context-recall",
          "fuzzy-in-context-recall",
          "selective-copying",
          "memorization",
          "compression"};
}

std::vector<std::string> recall_tasks_with_vocab() {
  auto tasks = recall_tasks();
  std::erase_if(tasks, [](const std::string& task) {
    return task == "needle" || task == "parity" || task == "s3";
  });
  return tasks;
}

bool recall_has_pairs(const std::string& task) {
  return task == "mqar" || task == "selective-copying";
}

bool recall_trains_on_all(const std::string& task) {
  return ends_with(task, "in-context-recall");
}

Random recall_random(uint64_t seed, const std::string& split, int64_t index) {
  const auto found = std::find(kSplits.begin(), kSplits.end(), split);
  if (found == kSplits.end()) {
    fail_usage("There is no split '", split, "' of a recall task; use ", join(kSplits, ", "), ".",
               did_you_mean(split, kSplits));
  }
  return Random(seed, uint64_t(found - kSplits.begin()), uint64_t(index));
}

std::vector<int32_t> draw_distinct(int64_t count, int32_t first, int64_t n, Random& random) {
  std::vector<int32_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), first);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(all[size_t(i)], all[size_t(i + random.below(n - i))]);
  }
  all.resize(size_t(count));
  return all;
}

void check_recall_length(const RecallCase& size, int64_t least, const std::string& why) {
  if (size.length < least) {
    fail_usage("A length of ", size.length, " is too short: ", why, " needs at least ", least,
               " tokens.");
  }
  if (size.length > kMaxRecallLength) {
    fail_usage("A length of ", size.length, " is above the limit of ", kMaxRecallLength, ".");
  }
}

void check_even_length(const RecallCase& size, const std::string& what) {
  if (size.length % 2 != 0) {
    fail_usage("A length of ", size.length, " is odd; ", what, " takes even ones.");
  }
}

std::unique_ptr<RecallSource> open_recall(const RecallSpec& spec) {
  if (spec.task == "mqar") return make_mqar_source(spec);
  if (spec.task == "needle") return make_needle_source(spec);
  if (spec.task == "copying") return make_copying_source(spec);
  if (spec.task == "parity" || spec.task == "s3") return make_state_source(spec);
  const auto tasks = recall_tasks();
  if (std::find(tasks.begin(), tasks.end(), spec.task) != tasks.end()) return make_mad_source(spec);
  fail_usage("Unknown recall task '", spec.task, "'; use ", join(tasks, ", "), ".",
             did_you_mean(spec.task, tasks));
}

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
                 "' but must be integers of at least 1 with commas between, such as 64,128 "
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

RecallBatch make_recall_batch(const RecallSource& source, const RecallCase& size,
                              const std::string& split, int64_t first, int64_t count) {
  source.check(size);
  RecallBatch batch;
  batch.ids = torch::empty({count, size.length}, torch::kInt64);
  batch.targets = torch::empty({count, size.length}, torch::kInt64);
  for (int64_t row = 0; row < count; ++row) {
    const RecallSample sample = source.sample(size, split, first + row);
    std::copy(sample.ids.begin(), sample.ids.end(), batch.ids[row].data_ptr<int64_t>());
    std::copy(sample.targets.begin(), sample.targets.end(), batch.targets[row].data_ptr<int64_t>());
    batch.distances.insert(batch.distances.end(), sample.distances.begin(), sample.distances.end());
  }
  return batch;
}

}  // namespace tost
