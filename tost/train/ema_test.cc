#include "tost/train/ema.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"

namespace tost {
namespace {

TEST(Ema, FollowsTheFormula) {
  std::map<std::string, torch::Tensor> values{{"w", torch::full({2}, 1.0)},
                                              {"count", torch::tensor(int64_t{0})}};
  Ema ema(values, 0.75);
  values["w"].fill_(5.0);
  values["count"].fill_(7);
  EXPECT_EQ(ema.average().at("w")[0].item<float>(), 1.0f)
      << "the average must not alias the weights";
  ema.update(values);
  EXPECT_EQ(ema.average().at("w")[0].item<float>(), 2.0f);  // 0.75 * 1 + 0.25 * 5
  EXPECT_EQ(ema.average().at("count").item<int64_t>(), 7);
  ema.update(values);
  EXPECT_EQ(ema.average().at("w")[1].item<float>(), 2.75f);  // 0.75 * 2 + 0.25 * 5
}

TEST(Ema, LoadNamesTheTensorThatDiffers) {
  Ema ema({{"w", torch::zeros({2})}}, 0.5);
  try {
    ema.load({{"w", torch::zeros({3})}});
    FAIL() << "a wrong shape must not load";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Tensor 'w' of the averaged weights is [3]"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tost
