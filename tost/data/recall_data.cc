#include "tost/data/recall_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/recall_source.h"

namespace tost {

std::vector<std::string> recall_tasks() {
  return {"mqar", "needle", "copying"};
}

std::vector<std::string> recall_splits() {
  return {"train", "validation", "test"};
}

Random recall_random(uint64_t seed, const std::string& split, int64_t index) {
  const auto splits = recall_splits();
  const auto found = std::find(splits.begin(), splits.end(), split);
  if (found == splits.end()) {
    fail_usage("There is no split '", split, "' of a recall task; use ", join(splits, ", "), ".",
               did_you_mean(split, splits));
  }
  return Random(seed, uint64_t(found - splits.begin()), uint64_t(index));
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

std::unique_ptr<RecallSource> open_recall(const RecallSpec& spec) {
  if (spec.task == "mqar") return make_mqar_source(spec);
  if (spec.task == "needle") return make_needle_source(spec);
  if (spec.task == "copying") return make_copying_source(spec);
  fail_usage("Unknown recall task '", spec.task, "'; use ", join(recall_tasks(), ", "), ".",
             did_you_mean(spec.task, recall_tasks()));
}

}  // namespace tost
