// Measures classifiers of sequences for `tost bench model`.
#pragma once

#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/kinds/sequence/classifier.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_sequence(const BenchModelSource& source, bool file);

// The products of SequenceClassifier::forward().
std::vector<Product> sequence_products(const SequenceClassifier& model, int64_t batch,
                                       int64_t tokens);

}  // namespace tost
