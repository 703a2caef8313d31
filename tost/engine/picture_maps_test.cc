// The maps of shipped picture models, which tracing must not change.
#include "tost/engine/picture_maps.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tost/engine/vision_file.h"

namespace tost {
namespace {

Image some_picture() {
  Image image(40, 30, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t(i * i / 7);
  return image;
}

TEST(PictureMaps, OfATraceAreWholeAndItsLogitsThoseOfThePass) {
  for (const char* model : {"shapes", "fashion", "clothing"}) {
    const std::string file = std::string(TOST_SOURCE_DIR "/models/") + model + ".safetensors";
    for (const char* precision : {"fp32", "bf16", "int8"}) {
      if (!pictures_run_in_engine(file)) continue;
      const auto opened = open_engine_vision(file, precision);
      const auto maps = picture_maps(*opened.engine, opened.info,
                                     picture_input(some_picture(), opened.info.preprocess));
      const int64_t side = opened.info.preprocess.size;
      std::vector<float> logits(opened.info.classes.size());
      opened.engine->forward(maps.input.values.data(), 1, side, side, logits.data());
      const auto shares = softmax(logits.data(), int64_t(logits.size()));
      const auto top = rank_classes(shares, opened.info.classes, 3);
      for (size_t i = 0; i < top.size(); ++i) {
        EXPECT_EQ(maps.top[i].label, top[i].label) << model << precision;
        EXPECT_EQ(maps.top[i].probability, top[i].probability) << model << precision;
      }
      const auto patches = size_t(maps.rows * maps.columns);
      ASSERT_EQ(int64_t(maps.layers.size()), opened.info.config.depth);
      for (const PictureLayer& layer : maps.layers) {
        EXPECT_EQ(layer.norms.size(), patches);
        for (size_t t = 0; t < patches && !layer.memberships.empty(); ++t) {
          double sum = 0;
          for (const auto& head : layer.memberships) sum += head[t];
          EXPECT_NEAR(sum, 1, 1e-5) << model << precision;
        }
        EXPECT_EQ(layer.memberships.empty(), std::isnan(layer.compression_after));
        if (!layer.memberships.empty()) {
          EXPECT_GT(layer.compression_after, 0);
        }
      }
      ASSERT_EQ(int64_t(maps.class_attention.size()), opened.info.config.class_blocks);
      for (const auto& heads : maps.class_attention) {
        for (const auto& head : heads) {
          EXPECT_EQ(head.size(), 1 + patches);
          EXPECT_NEAR(std::accumulate(head.begin(), head.end(), 0.0), 1, 1e-5);
        }
      }
    }
  }
}

// Group k of w holds all of token k; unit tokens have a moment of 1/P in each of the P channels.
TEST(PictureMaps, CompressionIsThatOfItsDefinition) {
  Array w = Array::zeros({2, 4}), pi = Array::zeros({2, 2});
  const float tokens[] = {3, 4, 0, 0, 5, 0, 0, 2};
  std::copy_n(tokens, 8, w.mutable_data());
  pi.mutable_data()[0] = pi.mutable_data()[3] = 1;
  const double first = std::log1p(200 * 0.36) + std::log1p(200 * 0.64), second = std::log1p(200.0);
  EXPECT_NEAR(layer_compression(w, pi), (first + second) / 4, 1e-12);
}

}  // namespace
}  // namespace tost
