#include <cmath>

#include "tests/testing/errors.h"
#include "tost/data/data_test_util.h"
#include "tost/data/loader.h"
#include "tost/io/image_ops.h"
#include "tost/io/preprocess.h"

namespace tost {
namespace corrupt_test {

// Edges, a slope and a texture, away from black and white.
Image picture(int64_t width, int64_t height, int64_t channels) {
  Image image(width, height, channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t value = 60 + 4 * x + (y > height / 2 ? 30 : 0) + (x * y % 7) * 3 + 5 * c;
        image.row(y)[x * channels + c] = static_cast<uint8_t>(value % 190 + 30);
      }
    }
  }
  return image;
}

double distance(const Image& a, const Image& b) {
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    const double d = double(a.pixels[i]) - double(b.pixels[i]);
    sum += d * d;
  }
  return std::sqrt(sum / double(a.pixels.size()));
}

double mean(const Image& image) {
  double sum = 0;
  for (uint8_t value : image.pixels) sum += value;
  return sum / double(image.pixels.size());
}

class Corruptions : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Corruptions, ::testing::ValuesIn(corruption_kinds()),
                         [](const auto& info) { return info.param; });

TEST_P(Corruptions, GoFurtherFromThePictureWithStrength) {
  for (const Image& image : {picture(32, 32, 3), picture(28, 40, 1)}) {
    double last = 0;
    for (int64_t strength = 1; strength <= kCorruptionStrengths; ++strength) {
      const Image damaged = corrupt(image, {GetParam(), strength}, 3, 5);
      EXPECT_EQ(damaged.width, image.width);
      EXPECT_EQ(damaged.height, image.height);
      EXPECT_EQ(damaged.channels, image.channels);
      const double now = distance(image, damaged);
      EXPECT_GT(now, 1.05 * last) << "strength " << strength;
      last = now;
    }
  }
}

TEST_P(Corruptions, DependOnSeedAndIndexAlone) {
  const Image image = picture(32, 32, 3);
  const Corruption corruption{GetParam(), 3};
  EXPECT_EQ(corrupt(image, corruption, 3, 5), corrupt(image, corruption, 3, 5));
  const bool random = GetParam() == "noise" || GetParam() == "occlusion";
  EXPECT_EQ(corrupt(image, corruption, 3, 5) != corrupt(image, corruption, 3, 6), random);
  EXPECT_EQ(corrupt(image, corruption, 3, 5) != corrupt(image, corruption, 4, 5), random);
}

TEST_P(Corruptions, TakeTheSmallestPictures) {
  EXPECT_EQ(corrupt(Image(), {GetParam(), 5}, 0, 0), Image());
  const Image one = corrupt(picture(1, 1, 3), {GetParam(), 5}, 0, 0);
  EXPECT_EQ(one.pixels.size(), 3u);
}

TEST(Corruption, NoiseHasTheStatedDeviation) {
  Image grey(200, 200, 1);
  for (uint8_t& value : grey.pixels) value = 128;
  const Image damaged = corrupt(grey, {"noise", 2}, 1, 1);
  EXPECT_NEAR(distance(grey, damaged), 255 * 0.08, 0.3);
  EXPECT_NEAR(mean(damaged), 128, 0.5);
}

TEST(Corruption, BlurKeepsTheMeanOfEachChannelAndFlattens) {
  for (int64_t strength = 1; strength <= kCorruptionStrengths; ++strength) {
    const Image image = picture(32, 48, 3);
    EXPECT_NEAR(mean(corrupt(image, {"blur", strength}, 0, 0)), mean(image), 0.15);  // rounding
  }
  // One bright pixel spreads as the Gaussian says: deviation 0.05 * 40 = 2 pixels.
  Image dot(40, 40, 1);
  dot.row(20)[20] = 255;
  const Image spread = corrupt(dot, {"blur", 4}, 0, 0);
  EXPECT_NEAR(spread.row(20)[20], 255 / (2 * M_PI * 4), 0.6);
  EXPECT_EQ(spread.row(20)[22], spread.row(22)[20]);
}

TEST(Corruption, OcclusionGreysASquareOfTheStatedSideAndNothingElse) {
  for (int64_t index = 0; index < 20; ++index) {
    for (int64_t strength = 1; strength <= kCorruptionStrengths; ++strength) {
      const Image image(40, 60, 3);
      const Image damaged = corrupt(image, {"occlusion", strength}, 0, index);
      const double side = kOcclusionSide[size_t(strength - 1)] * 40;
      EXPECT_EQ(std::count(damaged.pixels.begin(), damaged.pixels.end(), 128), 3 * side * side);
      EXPECT_EQ(std::count(damaged.pixels.begin(), damaged.pixels.end(), 0),
                3 * (40 * 60 - side * side));
    }
  }
}

TEST(Corruption, ContrastLeavesTheStatedShare) {
  Image image(2, 1, 1);
  image.pixels = {60, 160};
  EXPECT_EQ(corrupt(image, {"contrast", 2}, 0, 0).pixels, (std::vector<uint8_t>{85, 135}));
  EXPECT_EQ(corrupt(image, {"contrast", 5}, 0, 0).pixels, (std::vector<uint8_t>{105, 115}));
}

TEST(Corruption, RefusesWhatDoesNotExist) {
  const auto refusal = [](const Corruption& corruption) -> std::string {
    return testing::usage_error_of([&] { check_corruption(corruption); });
  };
  EXPECT_NE(refusal({"nois", 1}).find("Did you mean 'noise'?"), std::string::npos);
  EXPECT_NE(refusal({"blur", 0}).find("1 to 5, not 0"), std::string::npos);
  EXPECT_NE(refusal({"blur", 6}).find("1 to 5, not 6"), std::string::npos);
  EXPECT_EQ(refusal({"contrast", 5}), "");
}

// After fitting to the model's size, before normalising, and only where pictures are evaluated.
TEST(Corruption, TheLoaderAppliesIt) {
  const auto dataset = std::make_shared<testing::FakeDataset>(4, 24, 3);
  LoaderConfig config;
  config.batch_size = 4;
  config.seed = 7;
  config.preprocess.size = 16;
  config.preprocess.mean = {0.4, 0.5, 0.6};
  config.preprocess.std = {0.2, 0.3, 0.4};
  config.corruption = {"noise", 3};
  const BatchMaker maker(dataset, config);
  const Batch batch = maker.make(maker.order(0), 0, 0);
  std::vector<float> expected(3 * 16 * 16);
  for (int64_t i = 0; i < 4; ++i) {
    const Image fitted = fit_image(dataset->image(i), config.preprocess);
    Normalizer{config.preprocess}(corrupt(fitted, config.corruption, 7, i), expected.data());
    EXPECT_TRUE(torch::equal(batch.images[i].flatten(), torch::tensor(expected)));
  }
  config.train = true;
  LoaderConfig plain = config;
  plain.corruption = {};
  const BatchMaker training(dataset, config), untouched(dataset, plain);
  EXPECT_TRUE(torch::equal(training.make(training.order(0), 0, 0).images,
                           untouched.make(untouched.order(0), 0, 0).images));
}

}  // namespace corrupt_test
}  // namespace tost
