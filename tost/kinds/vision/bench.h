// Measures image classifiers for `tost bench model`.
#pragma once

#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/kinds/vision/image_classifier.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_vision(const BenchModelSource& source, bool file);

// The matrix products of ImageClassifier::forward() on pictures of a side, without the products
// between tokens in attention.
std::vector<Product> vision_products(const ImageClassifier& model, int64_t batch, int64_t side);

}  // namespace tost
