// Opening data sets: what is recognised, how splits are made, what is refused.
#include "tests/testing/shared.h"
#include "tost/data/data_test_util.h"
#include "tost/io/jpeg_test_util.h"
#include "tost/io/picture_files.h"
#include "tost/io/views.h"

namespace tost {
namespace open_test {

using namespace tost::testing;
using OpenTest = FolderTest;

std::string idx(std::vector<int> dims, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (int dim : dims)
    bytes += std::string{'\0', '\0', static_cast<char>(dim / 256), static_cast<char>(dim % 256)};
  return bytes + values;
}

void write_idx(const std::function<void(std::string, std::string)>& write,
               const std::string& prefix, int count, int classes) {
  std::string labels;
  for (int i = 0; i < count; ++i) labels.push_back(static_cast<char>(i % classes));
  write(prefix + "-images-idx3-ubyte",
        idx({count, 4, 5}, std::string(static_cast<size_t>(count) * 20, 'x')));
  write(prefix + "-labels-idx1-ubyte", idx({count}, labels));
}

std::string picture(uint8_t value) {
  Image image(6, 5, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return value % 2 ? encode_jpeg(image) : encode_png(image);
}

TEST_F(OpenTest, IdxWithHeldOutValidation) {
  const auto put = [&](const std::string& name, const std::string& bytes) { write(name, bytes); };
  write_idx(put, "train", 200, 10);
  write_idx(put, "t10k", 30, 3);
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(image_dataset_format(spec), "idx");
  EXPECT_EQ(image_dataset_splits(spec), (std::vector<std::string>{"train", "validation", "test"}));
  const auto train = open_image_dataset(spec, "train");
  const auto validation = open_image_dataset(spec, "val");
  const auto test = open_image_dataset(spec, "test");
  EXPECT_EQ(train->size(), 190);
  EXPECT_EQ(validation->size(), 10);
  EXPECT_EQ(test->size(), 30);
  EXPECT_EQ(test->classes().size(), 10u);  // as in training, though it shows only three
  EXPECT_EQ(train->classes()[7], "7");
  std::set<std::string> names;
  for (int64_t i = 0; i < 190; ++i) names.insert(train->name(i));
  for (int64_t i = 0; i < 10; ++i) names.insert(validation->name(i));
  EXPECT_EQ(names.size(), 200u);
  const Image image = train->image(0);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.channels, 1);

  spec.holdout = 0;
  EXPECT_EQ(open_image_dataset(spec, "train")->size(), 200);
  EXPECT_TRUE(contains(refusal(spec, "validation"), "it has train, test"));
  spec.holdout = 0.25;
  EXPECT_EQ(open_image_dataset(spec, "validation")->size(), 50);
}

TEST_F(OpenTest, RefusesIdxThatDoesNotFit) {
  const auto put = [&](const std::string& name, const std::string& bytes) { write(name, bytes); };
  write_idx(put, "train", 20, 4);
  write_idx(put, "t10k", 10, 6);
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_TRUE(contains(refusal(spec, "test"), "label 4 at position 4"));
  write("train-labels-idx1-ubyte", idx({19}, std::string(19, '\0')));
  EXPECT_TRUE(contains(refusal(spec, "train"), "20 pictures"));
  std::filesystem::remove(folder_ / "train-labels-idx1-ubyte");
  EXPECT_TRUE(contains(refusal(spec, "train"), "train-labels-idx1-ubyte"));
}

TEST_F(OpenTest, CifarKinds) {
  const std::string pixels(3072, 'p');
  write("batches.meta.txt", "a\nb\nc\n");
  for (const char* batch : {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"}) {
    write(batch, std::string("\2") + pixels + "\1" + pixels);
  }
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(image_dataset_format(spec), "cifar10");
  spec.holdout = 0;
  EXPECT_EQ(open_image_dataset(spec, "train")->size(), 4);
  EXPECT_EQ(open_image_dataset(spec, "test")->label(0), 2);
  write("validation.bin", std::string("\3") + pixels);
  EXPECT_TRUE(contains(refusal(spec, "validation"), "label 3 in record 0"));
  write("validation.bin", std::string("\2") + pixels.substr(1));
  EXPECT_TRUE(contains(refusal(spec, "validation"), "truncated"));

  write("cifar-100-binary/fine_label_names.txt", "x\ny\n");
  write("cifar-100-binary/train.bin", std::string("\7\1") + pixels);
  spec.format = "cifar100";
  EXPECT_EQ(open_image_dataset(spec, "train")->label(0), 1);
}

TEST_F(OpenTest, FoldersByClass) {
  write("train/dog/1.jpg", picture(11));
  write("train/cat/deep/er/2.PNG", picture(20));
  write("train/cat/no_ending", picture(22));
  write("train/cat/notes.txt", "ignored");
  write("train/.hidden/3.png", picture(30));
  write("val/cat/4.png", picture(40));
  write("test/dog/5.jpeg", "not an image");
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(image_dataset_format(spec), "folder");
  const auto train = open_image_dataset(spec, "train");
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->image(0).pixels[0], 20);
  EXPECT_EQ(train->image(0).pixels[0], 20);  // from memory
  EXPECT_EQ(train->label(2), 1);
  EXPECT_EQ(open_image_dataset(spec, "validation")->size(), 1);
  EXPECT_THROW(open_image_dataset(spec, "test")->image(0), Error);
  EXPECT_THROW(train->mask(0), Error);

  write("val/bird/6.png", picture(60));
  EXPECT_TRUE(contains(refusal(spec, "val"), "'bird' that the training split does not have"));
  std::filesystem::create_directories(folder_ / "train" / "empty");
  EXPECT_TRUE(contains(refusal(spec, "train"), "holds no JPEG or PNG"));
}

TEST_F(OpenTest, ClassFoldersAlone) {
  for (int i = 0; i < 40; ++i) write(cat(i % 2 ? "odd/" : "even/", i, ".png"), picture(2));
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(open_image_dataset(spec, "train")->size(), 38);
  EXPECT_EQ(open_image_dataset(spec, "validation")->size(), 2);
  EXPECT_TRUE(contains(refusal(spec, "test"), "no test split"));
}

TEST_F(OpenTest, SplitsWithoutTraining) {
  write("test/dog/1.png", picture(2));
  write("test/cat/2.png", picture(4));
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_EQ(image_dataset_splits(spec), (std::vector<std::string>{"test"}));
  const auto test = open_image_dataset(spec, "test");
  EXPECT_EQ(test->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(test->size(), 2);
  EXPECT_TRUE(contains(refusal(spec, "train"), "has no train split; it has test."));
  EXPECT_TRUE(contains(refusal(spec, "validation"), "has no validation split; it has test."));
  write("val/dog/3.png", picture(6));
  EXPECT_EQ(open_image_dataset(spec, "validation")->label(0), 0);
  // Next to other classes, "test" is one.
  write("other/4.png", picture(8));
  EXPECT_EQ(image_dataset_splits(spec), (std::vector<std::string>{"train", "validation"}));
}

TEST_F(OpenTest, WhatSystemsLeaveIsNoClassAndNoPicture) {
  for (int i = 0; i < 40; ++i) write(cat(i % 2 ? "odd/" : "even/", i, ".png"), picture(2));
  for (const char* name : {"Thumbs.db", "desktop.ini", ".DS_Store", "notes.md"}) {
    write(name, picture(2));
    write(cat("odd/", name), name == std::string("notes.md") ? "notes" : picture(2));
  }
  DataSpec spec;
  spec.path = folder_.string();
  spec.holdout = 0;
  EXPECT_EQ(open_image_dataset(spec, "train")->classes(),
            (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(open_image_dataset(spec, "train")->size(), 40);
}

// No run's configuration and no model file could keep them.
TEST_F(OpenTest, ClassNamesAreUtf8) {
  write("train/caf\xE9/1.png", picture(2));
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_TRUE(contains(refusal(spec, "train"), "class folder 'caf\\xe9' is not UTF-8"));
  write("classes.txt", "a\ncaf\xE9\n");
  EXPECT_TRUE(contains(error_of([&] { read_class_names((folder_ / "classes.txt").string()); }),
                       "in line 2 of"));
}

TEST_F(OpenTest, RefusesWhatIsNoDataSet) {
  DataSpec spec;
  spec.path = folder_.string();
  EXPECT_TRUE(contains(refusal(spec, "train"), "no data set"));
  EXPECT_TRUE(contains(refusal(spec, "trian"), "'train'"));
  spec.path = (folder_ / "missing").string();
  EXPECT_TRUE(contains(refusal(spec, "train"), "no directory"));
  write("file", "x");
  spec.path = (folder_ / "file").string();
  EXPECT_TRUE(contains(refusal(spec, "train"), "is a file"));
  spec.format = "cifar";
  EXPECT_TRUE(contains(refusal(spec, "train"), "Unknown data format"));
  spec.format = "idx";
  spec.path = folder_.string();
  EXPECT_TRUE(contains(refusal(spec, "train"), "train-images-idx3-ubyte"));
}

TEST(HoldoutTest, IsFixedDisjointAndComplete) {
  const Holdout a = split_holdout(1000, -1);
  const Holdout b = split_holdout(1000, -1);
  EXPECT_EQ(a.validation, b.validation);
  EXPECT_EQ(a.validation.size(), 50u);
  std::set<int64_t> all(a.train.begin(), a.train.end());
  all.insert(a.validation.begin(), a.validation.end());
  EXPECT_EQ(all.size(), 1000u);
  EXPECT_EQ(split_holdout(1'000'000, -1).validation.size(), 5000u);
  EXPECT_EQ(split_holdout(2, -1).validation.size(), 1u);
  EXPECT_THROW(split_holdout(1, -1), Error);
}

void expect_sizes(const DataSpec& spec, int64_t train, int64_t validation, int64_t test) {
  EXPECT_EQ(open_image_dataset(spec, "train")->size(), train);
  EXPECT_EQ(open_image_dataset(spec, "validation")->size(), validation);
  const auto last = open_image_dataset(spec, "test");
  EXPECT_EQ(last->size(), test);
  EXPECT_EQ(last->classes().size(), 10u);
}

TEST(RealDataTest, FashionMnistSlow) {
  TOST_SHARED_OR_SKIP(path, "data/fashion-mnist");
  DataSpec spec;
  spec.path = path.string();
  expect_sizes(spec, 57'000, 3'000, 10'000);
  spec.holdout = 0;
  const auto train = open_image_dataset(spec, "train");
  EXPECT_EQ(train->size(), 60'000);
  EXPECT_EQ(train->classes()[static_cast<size_t>(train->label(0))], "Ankle boot");
}

TEST(RealDataTest, ClothingAsCifar) {
  TOST_SHARED_OR_SKIP(path, "data/clothing-small");
  DataSpec spec;
  spec.path = path.string();
  EXPECT_EQ(image_dataset_format(spec), "cifar10");
  expect_sizes(spec, 3'068, 341, 372);
}

TEST(RealDataTest, ClothingAsFolders) {
  TOST_SHARED_OR_SKIP(path, "data/clothing-small/images");
  DataSpec spec;
  spec.path = path.string();
  expect_sizes(spec, 3'068, 341, 372);
  spec.path = path.parent_path().string();
  spec.format = "folder";
  expect_sizes(spec, 3'068, 341, 372);
  const auto test = open_image_dataset(spec, "test");
  EXPECT_EQ(test->classes()[0], "dress");
  EXPECT_EQ(std::min(test->image(0).width, test->image(0).height), 96);
}

}  // namespace open_test
}  // namespace tost
