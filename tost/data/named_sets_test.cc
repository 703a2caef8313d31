#include "tost/io/named_sets.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tost/data/sequence_dataset.h"
#include "tost/io/dataset.h"
#include "tost/io/text_layout.h"

namespace tost {
namespace {

using testing::data_error_of;
using testing::mentions;

TEST(NamedSets, GeneratedNamesHoldUnlessTheFormatSaysOtherwise) {
  for (const std::string& name : generated_sets()) {
    EXPECT_TRUE(means_generated(name, "auto")) << name;
    EXPECT_FALSE(means_generated("./" + name, "auto")) << name;
    EXPECT_FALSE(means_generated(name, "folder")) << name;
  }
  EXPECT_FALSE(means_generated("", "auto"));
}

TEST(NamedSets, OriginsAreRecognisedByTheLastPartOfThePath) {
  const std::string origin = origin_of("data/Fashion_MNIST/");
  EXPECT_TRUE(mentions(origin, "Zalando Research")) << origin;
  EXPECT_TRUE(mentions(origin, "t10k-images-idx3-ubyte")) << origin;
  EXPECT_EQ(origin_of("fashion-mnist"), origin_of("/a/fashionmnist"));
  for (const char* name : {"", ".", "/", "run", "fashion-mnist/train"}) {
    EXPECT_EQ(origin_of(name), "") << name;
  }
}

// Every reader of data, since a name does not say for which one it is meant.
TEST(NamedSets, MessagesOfMissingDataSayTheOrigin) {
  const std::string missing = "/nowhere/at/all/";
  EXPECT_TRUE(mentions(data_error_of([&] { image_dataset_format({.path = missing + "cifar10"}); }),
                       "Krizhevsky"));
  EXPECT_TRUE(mentions(data_error_of([&] { sequence_dataset_splits({.path = missing + "imdb"}); }),
                       "Maas"));
  EXPECT_TRUE(mentions(data_error_of([&] { find_text(missing + "tinyshakespeare", 0.1); }),
                       "input.txt (docs/data.md)"));
}

}  // namespace
}  // namespace tost
