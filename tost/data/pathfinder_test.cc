// Pathfinder: pictures drawn here against those of the reference generator, and the readers.
#include "tost/data/pathfinder.h"

#include <cmath>
#include <numeric>

#include "tost/data/data_test_util.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_dataset.h"
#include "tost/testing/shared.h"

namespace tost {
namespace {

using namespace tost::testing;
using PathfinderFiles = FolderTest;

struct Look {
  double ink = 0;                 // mean value
  std::vector<double> histogram;  // share of each value
  std::vector<double> rows;       // mean value of each row
};

Look look_at(const ImageDataset& pictures, int64_t count) {
  Look look{0, std::vector<double>(256), std::vector<double>(32)};
  const double pixels = static_cast<double>(count) * 1024;
  for (int64_t i = 0; i < count; ++i) {
    const Image image = pictures.image(i);
    for (size_t k = 0; k < image.pixels.size(); ++k) {
      look.ink += image.pixels[k] / pixels;
      look.histogram[image.pixels[k]] += 1 / pixels;
      look.rows[k / 32] += image.pixels[k] / (pixels / 32);
    }
  }
  return look;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += std::abs(a[k] - b[k]) / 2;
  return sum;
}

void expect_alike(const std::string& prefix, int64_t contour_length) {
  TOST_SHARED_OR_SKIP(folder, "data/pathfinder32");
  const auto real = open_pathfinder_idx((folder / prefix).string());
  const GeneratedPathfinder made(pathfinder_rules(32, contour_length), 1, "train", 1'000);
  const Look theirs = look_at(*real, 2'000), ours = look_at(made, 1'000);
  EXPECT_NEAR(ours.ink / theirs.ink, 1, 0.025);
  EXPECT_LT(distance(ours.histogram, theirs.histogram), 0.03);
  for (size_t y = 2; y < 30; ++y) EXPECT_NEAR(ours.rows[y] / theirs.rows[y], 1, 0.2) << y;
}

TEST(PathfinderTest, HardPicturesLookLikeTheReference) {
  expect_alike("hard", 14);
}

TEST(PathfinderTest, EasyPicturesLookLikeTheReference) {
  expect_alike("easy", 6);
}

TEST(PathfinderTest, ADiscLiesAtTheMiddleHalfTheTime) {
  const PathfinderArtist artist(pathfinder_rules(32, 6));
  int central = 0, connected = 0;
  for (uint64_t i = 0; i < 1'000; ++i) {
    const PathfinderPicture picture = artist.draw(Random(5, 1, i));
    const auto [row, column] = picture.markers[0];
    central += row >= 14 && row <= 16 && column >= 14 && column <= 16;
    connected += static_cast<int>(picture.label);
    EXPECT_EQ(*std::max_element(picture.image.pixels.begin(), picture.image.pixels.end()), 255);
    for (const auto& [y, x] : picture.markers) EXPECT_GT(picture.image.row(y)[x], 150);
  }
  // The first contour begins there, and its beginning or the second one's is marked. Four standard
  // deviations are 63.
  EXPECT_NEAR(central, 500, 63);
  EXPECT_NEAR(connected, 500, 63);
}

TEST(PathfinderTest, PicturesArePureFunctionsOfTheirPlace) {
  const GeneratedPathfinder data(pathfinder_rules(32, 14), 3, "train", 8);
  const Image fifth = data.image(5);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(data.image(i) == fifth, i == 5);
  const GeneratedPathfinder again(pathfinder_rules(32, 14), 3, "train", 6);
  EXPECT_EQ(again.image(5), fifth);
  EXPECT_FALSE(GeneratedPathfinder(pathfinder_rules(32, 14), 3, "test", 6).image(5) == fifth);
  EXPECT_FALSE(GeneratedPathfinder(pathfinder_rules(32, 14), 4, "train", 6).image(5) == fifth);
  const PathfinderArtist artist(pathfinder_rules(32, 14));
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(artist.draw(Random(3, 1, i)).label, data.label(static_cast<int64_t>(i)));
  }
}

TEST(PathfinderTest, EverySizeSlow) {
  for (const int64_t side : {64, 128, 256}) {
    const PathfinderArtist artist(pathfinder_rules(side, 14));
    const PathfinderPicture picture = artist.draw(Random(1));
    EXPECT_EQ(picture.image.width, side);
    EXPECT_EQ(picture.image.height, side);
    int64_t lit = 0;
    for (const uint8_t value : picture.image.pixels) lit += value > 60;
    // 28 + 32 dashes at most, two discs; half of them at least.
    EXPECT_GT(lit, 28 * 5 / 2);
    EXPECT_LT(lit, side * side / 8);
  }
}

TEST(PathfinderTest, RefusesOtherRules) {
  EXPECT_THROW(pathfinder_rules(48, 14), Error);
  EXPECT_THROW(pathfinder_rules(32, 2), Error);
  EXPECT_THROW(pathfinder_rules(32, 21), Error);
  PathfinderRules crowded = pathfinder_rules(32, 14);
  crowded.contour_length = 200;
  EXPECT_THROW(PathfinderArtist(crowded).draw(Random(1)), Error);
}

TEST(PathfinderTest, ReferenceFilesInBothForms) {
  TOST_SHARED_OR_SKIP(folder, "data/pathfinder32");
  SequenceSpec spec;
  spec.path = (folder / "layout").string();
  const auto archive = open_pathfinder_archive((folder / "layout/curv_contour_length_14").string());
  const auto idx = open_pathfinder_idx((folder / "hard").string());
  ASSERT_EQ(archive->size(), 50);
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(archive->image(i), idx->image(i));
    EXPECT_EQ(archive->label(i), idx->label(i));
  }
  EXPECT_EQ(open_sequence_dataset(spec, "train")->size(), 40);
  spec.path = folder.string();
  EXPECT_EQ(open_sequence_dataset(spec, "test")->size(), 300);
  spec.contour_length = 6;
  EXPECT_EQ(open_sequence_dataset(spec, "train")->size(), 1'600);
  spec.path = (folder / "hard").string();
  const auto train = open_sequence_dataset(spec, "train");
  EXPECT_EQ(train->size(), 2'400);
  EXPECT_EQ(train->format(), "pathfinder");
  EXPECT_EQ(train->coding(), (SequenceCoding{"pixels", 257, false}));
  EXPECT_EQ(train->length(0), 1'024);
}

TEST_F(PathfinderFiles, ListsAreReadStrictly) {
  const auto refused = [&](const std::string& list) {
    write("metadata/0.npy", list);
    try {
      open_pathfinder_archive(folder_.string());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      return std::string(error.what());
    }
    return std::string("read");
  };
  write("imgs/0/a.png", encode_png(Image(32, 32, 1)));
  write("imgs/0/b.png", encode_png(Image(16, 32, 1)));
  EXPECT_EQ(refused("imgs/0 a.png 0 1 1.0 14\n"), "read");
  EXPECT_TRUE(contains(refused("imgs/0 a.png 0 1\nimgs/0 a.png\n"), "Line 2 of"));
  EXPECT_TRUE(contains(refused("imgs/0 a.png 0 2\n"), "the label '2'"));
  EXPECT_TRUE(contains(refused("../x a.png 0 1\n"), "outside its folder"));
  EXPECT_TRUE(contains(refused("/etc passwd 0 1\n"), "outside its folder"));
  EXPECT_TRUE(contains(refused("\x93NUMPY\x01"), "is a NumPy file"));
  EXPECT_TRUE(contains(refused(""), "lists no pictures"));
  EXPECT_TRUE(contains(refused("imgs/0 missing.png 0 1\n"), "missing.png"));

  std::string list;
  for (int k = 0; k < 12; ++k) list += cat("imgs/0 ", k == 7 ? "b" : "a", ".png ", k, " 1\n");
  write("metadata/0.npy", list);
  SequenceSpec spec;
  spec.path = folder_.string();
  int other_size = 0;
  for (const std::string& split : sequence_dataset_splits(spec)) {
    const auto data = open_sequence_dataset(spec, split);
    for (int64_t i = 0; i < data->size(); ++i) {
      try {
        data->sample(i);
      } catch (const Error& error) {
        EXPECT_TRUE(contains(error.what(), "is 16 x 32, the first one 32 x 32"));
        ++other_size;
      }
    }
  }
  EXPECT_EQ(other_size, 1);
}

TEST_F(PathfinderFiles, ASplitAFolder) {
  for (const char* split : {"train", "val", "test"}) {
    write(cat(split, "/imgs/0/a.png"), encode_png(Image(32, 32, 1)));
    write(cat(split, "/metadata/0.npy"), "imgs/0 a.png 0 1 1.0 14\n");
  }
  SequenceSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(sequence_dataset_splits(spec),
            (std::vector<std::string>{"train", "validation", "test"}));
  EXPECT_EQ(open_sequence_dataset(spec, "validation")->size(), 1);
}

}  // namespace
}  // namespace tost
