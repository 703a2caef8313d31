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
  for (const char* precision : {"fp32", "bf16"}) {
    ImageRunner fast(*model, precision, /*engine=*/true), plain(*model, precision, false);
    EXPECT_TRUE(fast.by_engine());
    EXPECT_FALSE(plain.by_engine());
    const auto expected = plain.logits(images);
    EXPECT_FALSE(expected.requires_grad());
    EXPECT_LE((fast.logits(images) - expected).abs().max().item<double>(),
              (precision[0] == 'f' ? 1e-5 : 2e-2) * expected.abs().max().item<double>());
  }
  ImageRunner int8(*model, "int8", true);
  EXPECT_TRUE(int8.by_engine());
}

TEST(ImageRunner, ModelsWithoutAnEngineGoLayerByLayer) {
  VisionConfig config = small_config();
  config.architecture = "linear";
  const auto model = make_image_classifier(config);
  model->eval();
  ImageRunner runner(*model, "fp32", true);
  EXPECT_FALSE(runner.by_engine());
  const torch::NoGradGuard no_grad;
  const auto images = torch::randn({2, 3, 16, 16});
  EXPECT_TRUE(torch::equal(runner.logits(images), model->forward(images)));
}

TEST(ImageRunner, RefusesPrecisionsItCannotGive) {
  VisionConfig config = small_config();
  const auto model = make_image_classifier(config);
  EXPECT_THROW(ImageRunner(*model, "int8", false), Error);
  EXPECT_THROW(ImageRunner(*model, "int4", true), Error);
  EXPECT_THROW(ImageRunner(*model, "fp16", false), Error);
  config.architecture = "linear";
  const auto baseline = make_image_classifier(config);
  EXPECT_THROW(ImageRunner(*baseline, "int8", true), Error);
}

}  // namespace image_runner_test
}  // namespace tost
