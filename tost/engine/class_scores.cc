#include "tost/engine/class_scores.h"

#include <numeric>

#include "tost/engine/generate.h"
#include "tost/engine/predict.h"

namespace tost {
namespace {

// Whether class a ranks before class b, as in rank_classes().
bool class_before(const float* logits, int64_t a, int64_t b) {
  return ranks_before(logits[a], logits[b]) || (a < b && !ranks_before(logits[b], logits[a]));
}

}  // namespace

void ClassScores::add(const float* logits, const int64_t* labels, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i, logits += classes) {
    const int64_t label = labels[i];
    int64_t best = 0, rank = 0;
    for (int64_t k = 0; k < classes; ++k) {
      if (class_before(logits, k, best)) best = k;
      if (class_before(logits, k, label)) ++rank;
    }
    first += rank < 1;
    among_five += rank < 5;
    loss_sum += log_total(logits, classes) - logits[label];
    ++confusion[size_t(label * classes + best)];
  }
  count += rows;
}

nlohmann::json class_rows(const ClassScores& scores, const std::vector<std::string>& classes,
                          const char* items) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t k = 0; k < classes.size(); ++k) {
    const int64_t* row = scores.confusion.data() + k * classes.size();
    const int64_t count = std::accumulate(row, row + classes.size(), int64_t{0});
    rows.push_back(
        {{"class", classes[k]},
         {items, count},
         {"top1", count > 0 ? nlohmann::json(double(row[k]) / double(count)) : nlohmann::json()}});
  }
  return rows;
}

}  // namespace tost
