#include "tost/data/data_test_util.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_dataset.h"
#include "tost/testing/shared.h"

namespace tost {
namespace {

using namespace tost::testing;
using PathfinderFiles = FolderTest;

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
