#include "tost/data/sequence_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/data/listops.h"

namespace tost {
namespace {

class Collector {
 public:
  void add(const std::string& name, double value) {
    for (SequenceQuantity& quantity : quantities_) {
      if (quantity.name == name) return quantity.values.push_back(value);
    }
    quantities_.push_back({name, {value}});
  }

  std::vector<SequenceQuantity> finish() {
    for (SequenceQuantity& quantity : quantities_) {
      std::sort(quantity.values.begin(), quantity.values.end());
    }
    return std::move(quantities_);
  }

 private:
  std::vector<SequenceQuantity> quantities_;
};

void add_listops(const SequenceSample& sample, Collector& to) {
  std::string code;
  for (const int32_t token : sample.tokens) code.push_back(static_cast<char>(token - 1));
  const auto closed = std::count(code.begin(), code.end(), kListOpsClose);
  std::array<int64_t, 4> counts{};
  int64_t operators = 0, level = 0, levels = 0;
  for (const char token : code) {
    if (token == kListOpsClose) --level;
    if (token < kListOpsMin || token == kListOpsClose) continue;
    ++counts[static_cast<size_t>(token - kListOpsMin)];
    ++operators;
    levels += ++level;
  }
  if (operators != closed) return;  // cut
  to.add("depth", static_cast<double>(listops_depth(code)));
  to.add("operators", static_cast<double>(operators));
  if (operators == 0) return;
  to.add("mean depth", static_cast<double>(levels) / static_cast<double>(operators));
  // Every token but the outermost operator and the closing brackets is an argument of one operator.
  const auto arguments = static_cast<double>(std::ssize(code) - closed - 1);
  to.add("arguments", arguments / static_cast<double>(operators));
  for (size_t k = 0; k < counts.size(); ++k) {
    to.add("share of " + listops_symbols()[kListOpsMin + k].substr(1),
           static_cast<double>(counts[k]) / static_cast<double>(operators));
  }
}

// The middles of the two squares of `width` pixels whose darkest pixel is brightest, not touching.
std::array<std::array<int64_t, 2>, 2> brightest_squares(const std::vector<int32_t>& pixels,
                                                        int64_t side, int64_t width) {
  std::array<std::array<int64_t, 2>, 2> found{};
  for (size_t k = 0; k < 2; ++k) {
    int32_t best = -1;
    for (int64_t y = 0; y + width <= side; ++y) {
      for (int64_t x = 0; x + width <= side; ++x) {
        const bool touches =
            std::abs(y - found[0][0]) <= width && std::abs(x - found[0][1]) <= width;
        if (k == 1 && touches) continue;
        int32_t darkest = 256;
        for (int64_t p = 0; p < width * width && darkest > best; ++p) {
          darkest = std::min(darkest,
                             pixels[static_cast<size_t>((y + p / width) * side + x + p % width)]);
        }
        if (darkest <= best) continue;
        best = darkest;
        found[k] = {y, x};
      }
    }
  }
  return found;
}

void add_pixels(const SequenceSample& sample, const SequenceDataset& data, Collector& to) {
  double sum = 0;
  int64_t lit = 0;
  for (const int32_t token : sample.tokens) {
    sum += token - 1;
    lit += token > 61;
  }
  const auto count = static_cast<double>(sample.tokens.size());
  to.add("mean value", sum / count);
  to.add("share lit", static_cast<double>(lit) / count);
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(count)));
  if (data.format() != "pathfinder" || side < 16 || side * side != std::ssize(sample.tokens))
    return;
  const int64_t width = std::max<int64_t>(2, side / 32);
  const auto [a, b] = brightest_squares(sample.tokens, side, width);
  to.add("discs apart, " + data.classes().at(static_cast<size_t>(sample.label)),
         std::hypot(a[0] - b[0], a[1] - b[1]));
}

}  // namespace

double SequenceQuantity::mean() const {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double SequenceQuantity::deviation() const {
  if (values.size() < 2) return 0;
  const double middle = mean();
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double SequenceQuantity::quantile(double share) const {
  const auto place = std::floor(share * static_cast<double>(values.size()));
  return values[std::min(static_cast<size_t>(place), values.size() - 1)];
}

SequenceStatistics sequence_statistics(const std::vector<const SequenceDataset*>& parts) {
  SequenceStatistics statistics;
  Collector collector;
  for (const SequenceDataset* data : parts) {
    statistics.classes = data->classes();
    statistics.class_counts.resize(statistics.classes.size());
    const SequenceCoding coding = data->coding();
    for (int64_t i = 0; i < data->size(); ++i) {
      const SequenceSample sample = data->sample(i);
      ++statistics.samples;
      ++statistics.class_counts.at(static_cast<size_t>(sample.label));
      collector.add("tokens", static_cast<double>(sample.tokens.size()));
      if (coding.pairs) {
        collector.add("tokens of the second", static_cast<double>(sample.second.size()));
      }
      if (coding.kind == "listops") add_listops(sample, collector);
      if (coding.kind == "pixels") add_pixels(sample, *data, collector);
    }
  }
  statistics.quantities = collector.finish();
  return statistics;
}

double distribution_distance(const SequenceQuantity& a, const SequenceQuantity& b) {
  double largest = 0;
  size_t i = 0, j = 0;
  while (i < a.values.size() && j < b.values.size()) {
    const double value = std::min(a.values[i], b.values[j]);
    while (i < a.values.size() && a.values[i] <= value) ++i;
    while (j < b.values.size() && b.values[j] <= value) ++j;
    largest =
        std::max(largest, std::abs(static_cast<double>(i) / static_cast<double>(a.values.size()) -
                                   static_cast<double>(j) / static_cast<double>(b.values.size())));
  }
  return largest;
}

double distance_by_chance(size_t a, size_t b) {
  const auto n = static_cast<double>(a), m = static_cast<double>(b);
  return 1.358 * std::sqrt((n + m) / (n * m));
}

double class_distance(const SequenceStatistics& a, const SequenceStatistics& b) {
  if (a.classes != b.classes) {
    fail_usage("The sets have other classes, ", a.classes.size(), " and ", b.classes.size(),
               "; only sets of one task can be compared.");
  }
  double sum = 0;
  for (size_t k = 0; k < a.classes.size(); ++k) {
    sum += std::abs(static_cast<double>(a.class_counts[k]) / static_cast<double>(a.samples) -
                    static_cast<double>(b.class_counts[k]) / static_cast<double>(b.samples));
  }
  return sum / 2;
}

double class_distance_by_chance(const SequenceStatistics& a, const SequenceStatistics& b) {
  const auto n = static_cast<double>(a.samples), m = static_cast<double>(b.samples);
  double sum = 0;
  for (size_t k = 0; k < a.classes.size(); ++k) {
    const double p = static_cast<double>(a.class_counts[k] + b.class_counts[k]) / (n + m);
    // The mean size of a normal difference of that variance.
    sum += std::sqrt(2 / std::numbers::pi * p * (1 - p) * (1 / n + 1 / m));
  }
  return sum / 2;
}

}  // namespace tost
