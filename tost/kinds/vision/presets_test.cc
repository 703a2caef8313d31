#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tost/base/error.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace {

struct Row {
  const char* name;
  int64_t parameters;
  double gmac;  // at 224 x 224, three decimals
};

// The official table: 1000 classes.
class OfficialSize : public ::testing::TestWithParam<Row> {};

TEST_P(OfficialSize, ParametersAndMultiplyAdds) {
  const auto config = vision_preset(GetParam().name);
  // Uninitialised weights are never touched, so even the largest model costs no memory.
  const auto model = make_image_classifier(config, WeightInit::kNone);
  EXPECT_EQ(parameter_count(*model), GetParam().parameters);
  const double gmac = static_cast<double>(vision_multiply_adds(config, 224, 224)) / 1e9;
  EXPECT_EQ(std::lround(gmac * 1000), std::lround(GetParam().gmac * 1000)) << gmac;
}

INSTANTIATE_TEST_SUITE_P(Table, OfficialSize,
                         ::testing::Values(Row{"tost_cab_tiny_12_p16", 5'769'328, 1.020},
                                           Row{"tost_cab_small_12_p16", 22'589'944, 4.058},
                                           Row{"tost_cab_tiny_24_p16", 10'223'008, 1.888},
                                           Row{"tost_cab_small_24_p16", 40'344'664, 7.527},
                                           Row{"tost_cab_medium_24_p16", 71'481'064, 13.371},
                                           Row{"tost_cab_large_24_p16", 160'286'920, 30.061},
                                           Row{"tost_cab_small_12_p8", 22'549'672, 15.667},
                                           Row{"xcit_cab_tiny_12_p16", 6'658'672, 1.236},
                                           Row{"xcit_cab_small_12_p16", 26'138'104, 4.837},
                                           Row{"xcit_cab_medium_24_p16", 84'088'552, 16.143},
                                           Row{"vit_cab_small_12_p16", 26'138'008, 5.105},
                                           Row{"vit_cab_medium_24_p16", 84'088'360, 16.779}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VisionPresets, EveryOfficialNameIsThereAndValid) {
  const auto names = vision_preset_names();
  const std::set<std::string> all(names.begin(), names.end());
  EXPECT_EQ(all.size(), names.size());
  for (const std::string family : {"tost", "xcit", "vit"}) {
    for (const std::string patch : {"_p16", "_p8"}) {
      for (const std::string size :
           {"tiny_12", "tiny_24", "small_12", "small_24", "medium_24", "large_24"}) {
        EXPECT_TRUE(all.count(family + "_cab_" + size + patch)) << family << size << patch;
      }
    }
    for (const std::string size : {"_nano_p4", "_nano_p2", "_micro_p4", "_micro_p2"}) {
      EXPECT_TRUE(all.count(family + size)) << family << size;
    }
  }
  EXPECT_TRUE(all.count("tost_cab_medium_12_p16"));
  EXPECT_TRUE(all.count("linear"));
  for (const auto& name : names) {
    const auto config = vision_preset(name);
    EXPECT_EQ(config.name, name);
    EXPECT_NO_THROW(validate(config)) << name;
  }
}

TEST(VisionPresets, SmallOnesStaySmall) {
  // Trained in minutes on two cores: at most 25 million multiply-adds at 28 x 28.
  EXPECT_LT(vision_multiply_adds(vision_preset("tost_nano_p4"), 28, 28), 25'000'000);
  // Twenty epochs of 50,000 pictures take about an hour of one core.
  EXPECT_LT(vision_multiply_adds(vision_preset("tost_means_photo_p4"), 32, 32), 50'000'000);
  EXPECT_LT(
      parameter_count(*make_image_classifier(vision_preset("tost_nano_p4"), WeightInit::kNone)),
      500'000);
}

TEST(VisionPresets, LayerScaleFollowsDepth) {
  for (const auto& name : vision_preset_names()) {
    const auto config = vision_preset(name);
    EXPECT_EQ(config.layer_scale, config.depth == 24 ? 1e-5 : 1.0) << name;
  }
}

TEST(VisionPresets, UnknownNameOffersTheNearest) {
  try {
    vision_preset("tost_nano_p5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("tost_nano_p"), std::string::npos) << error.what();
  }
  EXPECT_THROW(vision_preset(""), Error);
}

}  // namespace
}  // namespace tost
