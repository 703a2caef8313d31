#include "tost/bench/product_floor.h"

#include <gtest/gtest.h>

#include "tost/kinds/language/file.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/model_file.h"

namespace tost {
namespace {

double gflop_of(const std::vector<Product>& products) {
  double sum = 0;
  for (const Product& p : products) sum += p.gflop();
  return sum;
}

TEST(ProductFloor, FindsTheProductsOfAVisionModel) {
  const auto config = vision_preset("tost_cab_small_12_p16");
  const auto model = make_image_classifier(config, WeightInit::kNone);
  const auto products = vision_products(*model, 2, 224);
  EXPECT_EQ(products[0], (Product{.rows = 2 * 112 * 112,
                                  .inputs = 27,
                                  .outputs = 48,
                                  .batch = 2,
                                  .channels = 3,
                                  .height = 224,
                                  .width = 224,
                                  .stride = 2}));
  // The official count has queries of every token in class attention, its two products with them,
  // and the position's projection; none of these is here.
  const double official = 2e-9 * double(vision_multiply_adds(config, 224, 224));
  const double d = 384, n = 196;
  const double left_out = 2e-9 * (2 * (n * d * d + (n + 1) * 2 * d) + 64 * d * n);
  EXPECT_NEAR(gflop_of(products) / 2, official - left_out, 1e-3 * official);
}

TEST(ProductFloor, FindsTheProductsOfALanguageModel) {
  LanguageConfig config;
  config.vocab = 11, config.block = 16, config.dim = 24, config.depth = 1, config.heads = 2;
  const auto model = make_language_model(config, WeightInit::kNone);
  const auto products = language_products(*model, 3, 5);
  ASSERT_EQ(products.size(), 5u);
  EXPECT_EQ(products.back(), (Product{.rows = 3, .inputs = 24, .outputs = 11}));
  EXPECT_NEAR(gflop_of(products), 2e-9 * (15 * (2 * 24 * 24 + 2 * 24 * 96) + 3 * 24 * 11), 1e-15);
}

TEST(ProductFloor, CountsBothDocumentsOfAPair) {
  SequenceConfig config;
  config.dim = 16, config.depth = 1, config.heads = 2, config.pairs = true, config.pool = "mean";
  const auto model = make_sequence_classifier(config, WeightInit::kNone);
  const auto products = sequence_products(*model, 2, 10);
  EXPECT_EQ(products[0].rows, 40);
}

TEST(ProductFloor, MeasuresEveryPrecision) {
  const std::vector<Product> products{{.rows = 64, .inputs = 32, .outputs = 48},
                                      {.rows = 2 * 4 * 4,
                                       .inputs = 27,
                                       .outputs = 8,
                                       .batch = 2,
                                       .channels = 3,
                                       .height = 8,
                                       .width = 8,
                                       .stride = 2}};
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    const auto floor = measure_products(products, precision, 3);
    EXPECT_GT(floor.ms, 0) << precision;
    EXPECT_NEAR(floor.gflop, 2e-9 * (64 * 32 * 48 + 32 * 27 * 8), 1e-15);
  }
}

}  // namespace
}  // namespace tost
