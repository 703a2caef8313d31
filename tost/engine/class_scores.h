// The scores of a classifier over batches of logits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tost {

// Adds up in float64 and integers, so that the order of batches affects the result only by
// rounding.
struct ClassScores {
  explicit ClassScores(int64_t class_count)
      : classes(class_count), confusion(size_t(class_count * class_count)) {}

  // Adds rows of logits [rows, classes] with labels [rows].
  void add(const float* logits, const int64_t* labels, int64_t rows);

  double loss() const { return share(loss_sum); }  // mean cross-entropy, nats
  double top1() const { return share(double(first)); }
  double top5() const { return share(double(among_five)); }  // 1 with at most five classes

  int64_t classes, count = 0;
  int64_t first = 0, among_five = 0;  // rows whose label has rank 1, and 1 to 5
  double loss_sum = 0;
  std::vector<int64_t> confusion;  // [true class, predicted class]

 private:
  double share(double sum) const { return count == 0 ? 0 : sum / double(count); }
};

// Returns {"class", `items`: number of items, "top1"} for each class.
nlohmann::json class_rows(const ClassScores& scores, const std::vector<std::string>& classes,
                          const char* items);

}  // namespace tost
