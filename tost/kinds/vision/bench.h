// How `tost bench model` and `tost bench train` measure image classifiers.
#pragma once

#include <memory>
#include <vector>

#include "tost/bench/bench_model.h"
#include "tost/bench/train_bench_model.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_classifier.h"

namespace tost {

std::unique_ptr<BenchModel> open_bench_vision(const BenchModelSource& source, bool file);

// The products of ImageClassifier::forward(); those of attention itself (token by token) are left
// out. side: of the pictures.
std::vector<Product> vision_products(const ImageClassifier& model, int64_t batch, int64_t side);

// What `tost bench train` takes steps of: square images of `side` pixels. Without stochastic depth,
// so that every step costs the same.
std::unique_ptr<TrainBenchModel> make_bench_model(const VisionConfig& config, int64_t batch,
                                                  int64_t side);

// Throws a usage Error if a model has no plain form; see check_plain_form for language models.
void check_plain_vision(const VisionConfig& config);

}  // namespace tost
