// Transforms, augmentation, mixing and the order of an epoch.
#include "tost/data/augment.h"

#include <cmath>
#include <numeric>

#include "tost/data/data_test_util.h"
#include "tost/data/loader.h"
#include "tost/io/image_ops.h"
#include "tost/io/shapes.h"

namespace tost {
namespace augment_test {

using namespace tost::testing;

Image picture(int64_t width, int64_t height, int64_t channels) {
  Image image(width, height, channels);
  Random random(7);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(30 + random.below(180));
  return image;
}

TEST(PreprocessTest, CropsTheCentreLikeTorchvision) {
  Image image(300, 200, 1);
  for (int64_t y = 0; y < 200; ++y) {
    for (int64_t x = 0; x < 300; ++x) image.row(y)[x] = static_cast<uint8_t>(x / 2);
  }
  Preprocess p;
  p.size = 200;
  p.channels = 1;
  const Image full = fit_image(image, p);
  EXPECT_EQ(full.width, 200);
  EXPECT_EQ(full.row(0)[0], 25);  // x = 50
  p.resize = "squeeze";
  EXPECT_NEAR(fit_image(image, p).row(100)[0], 0, 1);
  EXPECT_NEAR(fit_image(image, p).row(100)[199], 149, 1);
  p.resize = "crop";
  p.size = 224;
  p.crop_ratio = 0.875;  // to 256, then 16 pixels off each side
  const Image zoomed = fit_image(picture(256, 256, 3), p);
  EXPECT_EQ(zoomed, to_channels(crop(picture(256, 256, 3), {16, 16, 224, 224}), 1));
}

// The shorter side becomes 81,920 pixels, the longer one five thousand million: only the crop of
// 8,192 x 8,192 can be made.
TEST(PreprocessTest, CropsTheLongestPicturesToo) {
  Preprocess p;
  p.size = 8192;
  p.channels = 1;
  p.crop_ratio = 0.1000001;
  p.interpolation = "bilinear";
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 65'535}, {65'535, 1}}) {
    const Image fitted = fit_image(Image(width, height, 1), p);
    EXPECT_EQ(fitted.width, p.size);
    EXPECT_EQ(fitted.height, p.size);
  }
}

TEST(PreprocessTest, NormalisesToChannelsFirst) {
  Preprocess p;
  p.size = 2;
  p.mean = {0.5, 0, 0.25};
  p.std = {0.5, 1, 0.25};
  Image image(2, 2, 3);
  image.pixels = {255, 255, 255, 0, 0, 0, 0, 51, 0, 0, 0, 255};
  float out[12];
  Normalizer{p}(image, out);
  const float expected[] = {1, -1, -1, -1, 1, 0, 0.2F, 0, 3, -1, -1, 3};
  for (int i = 0; i < 12; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6) << i;
}

TEST(PreprocessTest, StatisticsMakeTheDataStandard) {
  const ShapesDataset data(0, "train", 32, 40);
  const ChannelStats stats = channel_stats(data, 3);
  Preprocess p;
  p.mean = stats.mean;
  p.std = stats.std;
  double sum = 0, squares = 0;
  std::vector<float> out(3 * 32 * 32);
  for (int64_t i = 0; i < 40; ++i) {
    Normalizer{p}(data.image(i), out.data());
    for (float v : out) sum += v, squares += v * v;
  }
  EXPECT_NEAR(sum / (40 * 3072), 0, 1e-4);
  EXPECT_NEAR(squares / (40 * 3072), 1, 1e-3);
}

TEST(PreprocessTest, RefusesNonsense) {
  for (const auto& spoil : std::vector<std::function<void(Preprocess&)>>{
           [](Preprocess& p) { p.size = 0; }, [](Preprocess& p) { p.channels = 2; },
           [](Preprocess& p) { p.resize = "stretch"; }, [](Preprocess& p) { p.crop_ratio = 1.5; },
           [](Preprocess& p) { p.interpolation = "best"; }, [](Preprocess& p) { p.mean = {1}; },
           [](Preprocess& p) {
             p.std = {1, 0, 1};
           }}) {
    Preprocess p;
    check_preprocess(p);
    spoil(p);
    EXPECT_THROW(check_preprocess(p), Error);
  }
}

TEST(AugmentTest, EveryCropGivesTheInputSizeAndIsRepeatable) {
  for (const char* kind : {"none", "pad", "random"}) {
    for (const auto& [width, height] : {std::pair{40, 90}, {32, 32}, {1, 1}, {500, 3}}) {
      Preprocess p;
      AugmentConfig config;
      config.crop = kind;
      config.rand_augment.layers = 2;
      config.erase = 0.5;
      const Augmenter augment(p, config);
      std::vector<float> a(3072), b(3072);
      Random first(1, 2, 3), second(1, 2, 3);
      for (int i = 0; i < 5; ++i) {
        augment(picture(width, height, 3), first, a.data());
        augment(picture(width, height, 3), second, b.data());
        EXPECT_EQ(a, b);
      }
    }
  }
}

TEST(AugmentTest, PadMovesThePicture) {
  Preprocess p;
  AugmentConfig config;
  config.flip = 0;
  const Augmenter augment(p, config);
  const Image original = picture(32, 32, 3);
  Random random(5);
  std::set<std::pair<int64_t, int64_t>> moves;
  for (int i = 0; i < 400; ++i) {
    const Image moved = augment.augment(original, random);
    bool found = false;
    for (int64_t dy = -4; dy <= 4 && !found; ++dy) {
      for (int64_t dx = -4; dx <= 4 && !found; ++dx) {
        found =
            std::equal(moved.row(10) + 30, moved.row(10) + 60, original.row(10 + dy) + 30 + 3 * dx);
        if (found) moves.insert({dy, dx});
      }
    }
    EXPECT_TRUE(found);
  }
  EXPECT_GT(moves.size(), 70u);  // of 81
}

TEST(AugmentTest, FlipIsFairAndExact) {
  const Image image = picture(5, 3, 3);
  EXPECT_NE(flip_horizontal(image), image);
  EXPECT_EQ(flip_horizontal(flip_horizontal(image)), image);
  EXPECT_EQ(flip_horizontal(image).row(1)[0], image.row(1)[12]);
  Preprocess p;
  AugmentConfig config;
  config.crop = "none";
  const Augmenter augment(p, config);
  const Image square = picture(32, 32, 3);
  Random random(3);
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) flipped += augment.augment(square, random) != square;
  EXPECT_NEAR(flipped, 500, 70);
}

TEST(AugmentTest, ErasingReplacesARectangleByNoise) {
  Preprocess p;
  AugmentConfig config;
  config.crop = "none";
  config.flip = 0;
  config.erase = 1;
  const Augmenter augment(p, config);
  Image image(32, 32, 3);
  Random random(3);
  std::vector<float> out(3072);
  for (int i = 0; i < 50; ++i) {
    augment(image, random, out.data());
    const auto changed = std::count_if(out.begin(), out.end(), [](float v) { return v != 0; }) / 3;
    EXPECT_GT(changed, 1024 * 0.01);
    EXPECT_LT(changed, 1024 * 0.4);
  }
}

TEST(AugmentTest, RefusesNonsense) {
  for (const auto& spoil : std::vector<std::function<void(AugmentConfig&)>>{
           [](AugmentConfig& c) { c.crop = "padd"; }, [](AugmentConfig& c) { c.pad = -1; },
           [](AugmentConfig& c) { c.min_scale = 0; }, [](AugmentConfig& c) { c.max_ratio = 0.1; },
           [](AugmentConfig& c) { c.interpolation = "?"; }, [](AugmentConfig& c) { c.flip = 1.1; },
           [](AugmentConfig& c) { c.erase = -0.1; }, [](AugmentConfig& c) { c.color_jitter = -1; },
           [](AugmentConfig& c) { c.rand_augment.layers = -1; },
           [](AugmentConfig& c) { c.rand_augment.noise = NAN; }}) {
    AugmentConfig config;
    check_augment(config);
    spoil(config);
    EXPECT_THROW(check_augment(config), Error);
  }
}

TEST(RandAugmentTest, EveryOperationChangesThePictureAndKeepsItsSize) {
  ASSERT_EQ(rand_augment_ops().size(), 15u);
  for (int64_t channels : {1, 3}) {
    const Image image = picture(33, 21, channels);
    const OpContext context{std::vector<uint8_t>(static_cast<size_t>(channels), 128), "random"};
    for (const std::string& op : rand_augment_ops()) {
      Random random(11);
      const Image changed = apply_rand_augment_op(op, 9, image, context, random);
      EXPECT_EQ(changed.width, 33);
      EXPECT_EQ(changed.height, 21);
      EXPECT_EQ(changed.channels, channels);
      if (channels == 1 && op == "ColorIncreasing") continue;
      EXPECT_NE(changed.pixels, image.pixels) << op;
    }
  }
  Random random(1);
  EXPECT_THROW(apply_rand_augment_op("Blur", 9, picture(3, 3, 3), {}, random), Error);
}

TEST(RandAugmentTest, LevelZeroLeavesGeometryAndColourAlone) {
  const Image image = picture(33, 21, 3);
  for (const std::string op : {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel",
                               "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
                               "SharpnessIncreasing", "SolarizeIncreasing", "SolarizeAdd"}) {
    Random random(11);
    EXPECT_EQ(apply_rand_augment_op(op, 0, image, {{0, 0, 0}, "bicubic"}, random), image) << op;
  }
}

TEST(MixTest, TargetsSumToOneAndFollowTheWeight) {
  std::vector<float> targets(4 * 5);
  soft_targets({0, 1, 1, 4}, 5, 0.7, 0.1, targets.data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::accumulate(targets.begin() + i * 5, targets.begin() + i * 5 + 5, 0.0), 1,
                1e-6);
  }
  EXPECT_NEAR(targets[0], 0.02 + 0.9 * 0.7, 1e-6);
  EXPECT_NEAR(targets[4], 0.02 + 0.9 * 0.3, 1e-6);
  EXPECT_NEAR(targets[6], 0.02 + 0.9, 1e-6);  // mixed with its own class
}

TEST(MixTest, MixupBlendsMirrorPairs) {
  MixConfig config;
  config.mixup = 0.8;
  std::vector<float> images = {1, 1, 2, 2, 30, 30};  // three pictures of two pixels
  Random random(4);
  const double first_weight = mix_batch(config, random, {3, 1, 1, 2}, images.data());
  EXPECT_NEAR(images[0], first_weight * 1 + (1 - first_weight) * 30, 1e-5);
  EXPECT_NEAR(images[4], first_weight * 30 + (1 - first_weight) * 1, 1e-5);
  EXPECT_EQ(images[2], 2);
}

TEST(MixTest, CutmixKeepsTheShareItReports) {
  MixConfig config;
  config.cutmix = 1;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> images(2 * 3 * 20 * 20, 1.0F);
    std::fill(images.begin() + 1200, images.end(), 2.0F);
    Random random(seed);
    const double first_weight = mix_batch(config, random, {2, 3, 20, 20}, images.data());
    const auto unchanged = std::count(images.begin(), images.begin() + 1200, 1.0F);
    EXPECT_NEAR(first_weight, static_cast<double>(unchanged) / 1200, 1e-9);
  }
}

TEST(MixTest, OffMeansUntouchedAndRefusesNonsense) {
  std::vector<float> images = {1, 2, 3, 4};
  Random random(1);
  EXPECT_EQ(mix_batch({}, random, {2, 1, 1, 2}, images.data()), 1);
  EXPECT_EQ(images, (std::vector<float>{1, 2, 3, 4}));
  MixConfig config;
  config.mixup = -1;
  EXPECT_THROW(check_mix(config), Error);
  config = {};
  config.label_smoothing = 1;
  EXPECT_THROW(check_mix(config), Error);
}

TEST(SamplerTest, ShufflesEachEpochAgain) {
  SamplerConfig config{true, 3};
  const auto first = epoch_order(100, config, 0);
  EXPECT_EQ(first, epoch_order(100, config, 0));
  EXPECT_NE(first, epoch_order(100, config, 1));
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 100u);
  config.shuffle = false;
  EXPECT_EQ(epoch_order(3, config, 5), (std::vector<int64_t>{0, 1, 2}));
}

TEST(SamplerTest, RepeatsAsTheOfficialSampler) {
  const SamplerConfig config{true, 3, 3};
  const auto order = epoch_order(1000, config, 0);
  ASSERT_EQ(order.size(), 768u);
  EXPECT_EQ(epoch_length(1000, config), 768);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], order[i / 3 * 3]);
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 256u);
  EXPECT_EQ(epoch_order(100, config, 0).size(), 100u);
}

TEST(ShapesTest, IsAPureFunctionOfSeedSplitAndIndex) {
  const ShapesDataset a(1, "train", 32, 50), b(1, "train", 32, 10), c(2, "train", 32, 10);
  const ShapesDataset test(1, "test", 32, 10);
  EXPECT_EQ(a.image(7), b.image(7));
  EXPECT_NE(a.image(7), c.image(7));
  EXPECT_NE(a.image(7), test.image(7));
  EXPECT_EQ(a.label(7), b.label(7));
}

TEST(ShapesTest, TheLabelIsTheLargestObjectInTheMask) {
  const ShapesDataset data(0, "train", 64, 300);
  std::set<int64_t> labels;
  int largest_is_label = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    const Image mask = data.mask(i);
    ASSERT_EQ(mask.channels, 1);
    std::vector<int64_t> area(11);
    for (uint8_t value : mask.pixels) ++area.at(value);
    labels.insert(data.label(i));
    const auto most = std::max_element(area.begin() + 1, area.end()) - area.begin();
    largest_is_label += most == data.label(i) + 1;
    EXPECT_GT(area[static_cast<size_t>(data.label(i)) + 1], 0);
    EXPECT_GE(std::count_if(area.begin() + 1, area.end(), [](int64_t n) { return n > 0; }), 2);
  }
  EXPECT_EQ(labels.size(), 10u);
  EXPECT_GE(largest_is_label, 297);  // a small one may cover part of it
}

TEST(ShapesTest, RefusesImpossibleSizes) {
  EXPECT_THROW(ShapesDataset(0, "train", 8, 10), Error);
  EXPECT_THROW(ShapesDataset(0, "train", 32, 0), Error);
}

}  // namespace augment_test
}  // namespace tost
