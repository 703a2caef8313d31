// What a set of sequences looks like in numbers, and how far two sets are apart. Free of torch.
#pragma once

#include "tost/data/sequence_dataset.h"

namespace tost {

// One number a sample.
struct SequenceQuantity {
  std::string name;
  std::vector<double> values;  // ascending

  double mean() const;
  double deviation() const;             // of the samples, divided by n - 1
  double quantile(double share) const;  // the value at that share of the samples; 0.5: the median
};

struct SequenceStatistics {
  int64_t samples = 0;
  std::vector<std::string> classes;
  std::vector<int64_t> class_counts;
  // "tokens" always ("tokens of the second" of pairs). ListOps: "depth", "mean depth" and
  // "arguments" of the operators, "operators", "share of MIN" and so on, not of sequences that were
  // cut. Pictures:
  // "mean value", "share lit" (values above 60). Pathfinder: "discs apart" by class, in pixels,
  // between the two brightest discs.
  std::vector<SequenceQuantity> quantities;
};

// Of several data sets of one format together, as the splits of one. Throws what sample() throws.
SequenceStatistics sequence_statistics(const std::vector<const SequenceDataset*>& parts);

// Kolmogorov's and Smirnov's: the largest difference of the two distribution functions.
double distribution_distance(const SequenceQuantity& a, const SequenceQuantity& b);
// What it exceeds in one of twenty draws of these sizes from one distribution.
double distance_by_chance(size_t a, size_t b);

// Half the sum of the differences of shares (total variation). Throws a usage Error where the
// classes differ.
double class_distance(const SequenceStatistics& a, const SequenceStatistics& b);
// Its mean where both were drawn from the shares of both together.
double class_distance_by_chance(const SequenceStatistics& a, const SequenceStatistics& b);

}  // namespace tost
