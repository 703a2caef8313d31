#include "tost/kinds/vision/image_runner.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"

namespace tost {
namespace image_runner_test {

VisionConfig small_config() {
  VisionConfig c;
  c.image_size = 16;
  c.patch = 4;
  c.dim = 16;
  c.depth = 1;
  c.heads = 2;
  c.classes = 5;
  return c;
}

TEST(ImageRunner, EngineAndModuleAgree) {
  torch::manual_seed(1);
  const auto model = make_image_classifier(small_config());
  model->eval();
  const auto images = torch::randn({3, 3, 16, 16});
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    ImageRunner fast(*model, precision, /*engine=*/true), plain(*model, precision, false);
    EXPECT_TRUE(fast.by_engine());
    EXPECT_FALSE(plain.by_engine());
    const auto expected = plain.logits(images);
    EXPECT_FALSE(expected.requires_grad());
    EXPECT_LE((fast.logits(images) - expected).abs().max().item<double>(),
              (precision == Precision::kFp32 ? 1e-5 : 2e-2) * expected.abs().max().item<double>());
  }
  ImageRunner int8(*model, Precision::kInt8, true);
  EXPECT_TRUE(int8.by_engine());
}

TEST(ImageRunner, ModelsWithoutAnEngineGoLayerByLayer) {
  VisionConfig config = small_config();
  config.architecture = "linear";
  const auto model = make_image_classifier(config);
  model->eval();
  ImageRunner runner(*model, Precision::kFp32, true);
  EXPECT_FALSE(runner.by_engine());
  const torch::NoGradGuard no_grad;
  const auto images = torch::randn({2, 3, 16, 16});
  EXPECT_TRUE(torch::equal(runner.logits(images), model->forward(images)));
}

TEST(ImageRunner, RefusesPrecisionsItCannotGive) {
  VisionConfig config = small_config();
  const auto model = make_image_classifier(config);
  EXPECT_THROW(ImageRunner(*model, Precision::kInt8, false), Error);
  EXPECT_THROW(ImageRunner(*model, Precision::kInt4, true), Error);
  EXPECT_THROW(ImageRunner(*model, Precision::kInt4, false), Error);
  config.architecture = "linear";
  const auto baseline = make_image_classifier(config);
  EXPECT_THROW(ImageRunner(*baseline, Precision::kInt8, true), Error);
}

}  // namespace image_runner_test
}  // namespace tost
