#include "tost/data/loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tost/data/data_test_util.h"
#include "tost/io/jpeg_test_util.h"

namespace tost {
namespace {

using namespace tost::testing;

LoaderConfig training() {
  LoaderConfig config;
  config.batch_size = 8;
  config.train = true;
  config.seed = 5;
  config.preprocess.size = 12;
  config.augment.crop = "random";
  config.augment.rand_augment.layers = 2;
  config.augment.erase = 0.25;
  config.mix.mixup = 0.8;
  config.mix.cutmix = 1;
  config.mix.label_smoothing = 0.1;
  return config;
}

std::shared_ptr<const ImageDataset> pictures(int64_t size = 50, std::set<int64_t> bad = {}) {
  return std::make_shared<FakeDataset>(size, 16, 3, std::move(bad));
}

std::vector<Batch> take(ImageLoader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

void expect_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(torch::equal(a[i].images, b[i].images));
    EXPECT_TRUE(torch::equal(a[i].labels, b[i].labels));
    EXPECT_EQ(a[i].targets.defined(), b[i].targets.defined());
    if (a[i].targets.defined()) {
      EXPECT_TRUE(torch::equal(a[i].targets, b[i].targets));
    }
    EXPECT_EQ(a[i].index, b[i].index);
    EXPECT_EQ(a[i].samples, b[i].samples);
  }
}

TEST(LoaderTest, BatchesDoNotDependOnWorkersOrPrefetch) {
  LoaderConfig config = training();
  config.workers = 0;
  ImageLoader reference(pictures(50, {3, 17}), config);
  reference.start_epoch(2);
  const auto expected = take(reference);
  ASSERT_EQ(expected.size(), 7u);
  for (int64_t workers : {1, 2, 5}) {
    for (int64_t prefetch : {1, 3, 20}) {
      config.workers = workers;
      config.prefetch = prefetch;
      ImageLoader loader(pictures(50, {3, 17}), config);
      loader.start_epoch(2);
      expect_equal(take(loader), expected);
      EXPECT_EQ(loader.unreadable(), 2);
    }
  }
}

class JpegLoaderTest : public FolderTest {
 protected:
  // Smooth pictures of different sizes, one of them a PNG and one cut off.
  std::shared_ptr<const ImageDataset> jpegs(int64_t cache_bytes) const {
    for (int64_t i = 0; i < 12; ++i) {
      Image image(90 + 13 * i, 120 + 7 * i, 3);
      for (int64_t y = 0; y < image.height; ++y) {
        for (int64_t x = 0; x < image.width; ++x) {
          uint8_t* pixel = image.row(y) + 3 * x;
          pixel[0] = static_cast<uint8_t>((x + 10 * i) % 256);
          pixel[1] = static_cast<uint8_t>(y % 256);
          pixel[2] = static_cast<uint8_t>((x + y) / 2 % 256);
        }
      }
      std::string bytes = i == 4 ? encode_png(image) : encode_jpeg(image, 95);
      if (i == 7) bytes.resize(bytes.size() / 2);
      write(cat("train/", i % 2 == 0 ? "even" : "odd", "/", i, i == 4 ? ".png" : ".jpg"), bytes);
    }
    DataSpec spec{.path = folder_.string(), .holdout = 0, .cache_bytes = cache_bytes};
    return open_image_dataset(spec, "train");
  }
  static LoaderConfig config() {
    LoaderConfig config = training();
    config.augment.rand_augment.layers = 0;
    config.augment.erase = 0;
    config.mix = {};
    config.augment.min_scale = 0.3;
    return config;
  }
};

TEST_F(JpegLoaderTest, BatchesDoNotDependOnWorkersOrCache) {
  LoaderConfig c = config();
  c.workers = 0;
  std::vector<std::vector<Batch>> expected;
  {
    ImageLoader reference(jpegs(0), c);
    for (int64_t epoch : {0, 1}) {
      reference.start_epoch(epoch);
      expected.push_back(take(reference));
    }
  }
  for (const int64_t cache : {int64_t{0}, int64_t{200'000}, int64_t{1} << 30}) {
    for (const int64_t workers : {0, 3}) {
      c.workers = workers;
      ImageLoader loader(jpegs(cache), c);
      for (int64_t epoch : {0, 1}) {
        loader.start_epoch(epoch);
        expect_equal(take(loader), expected[static_cast<size_t>(epoch)]);
      }
    }
  }
}

TEST(LoaderTest, ResumesInsideAnEpoch) {
  ImageLoader loader(pictures(), training());
  loader.start_epoch(1);
  auto all = take(loader);
  loader.start_epoch(1, 4);
  all.erase(all.begin(), all.begin() + 4);
  expect_equal(take(loader), all);
  loader.start_epoch(1, 100);
  EXPECT_FALSE(loader.next().has_value());
}

TEST(LoaderTest, EpochsAndSeedsDiffer) {
  ImageLoader loader(pictures(), training());
  const auto first = take(loader);  // starts epoch 0 by itself
  loader.start_epoch(1);
  EXPECT_FALSE(torch::equal(first[0].images, loader.next()->images));
  LoaderConfig config = training();
  config.seed = 6;
  ImageLoader other(pictures(), config);
  EXPECT_FALSE(torch::equal(first[0].images, other.next()->images));
}

TEST(LoaderTest, ShapesAndTargets) {
  ImageLoader loader(pictures(), training());
  EXPECT_EQ(loader.batches_per_epoch(), 7);
  EXPECT_EQ(loader.images_per_epoch(), 50);
  const auto batches = take(loader);
  EXPECT_EQ(batches[0].images.sizes(), (torch::IntArrayRef{8, 3, 12, 12}));
  EXPECT_EQ(batches[6].images.size(0), 2);
  EXPECT_EQ(batches[0].labels.scalar_type(), torch::kInt64);
  for (const Batch& batch : batches) {
    EXPECT_TRUE(torch::allclose(batch.targets.sum(1), torch::ones({batch.images.size(0)})));
  }
  LoaderConfig config = training();
  config.drop_last = true;
  ImageLoader dropping(pictures(), config);
  EXPECT_EQ(take(dropping).size(), 6u);
  ImageLoader small(pictures(5), config);
  EXPECT_EQ(take(small).size(), 1u);
}

// Every process gets the batches that one process would have, whatever the workers do, also where
// the processes do not divide the batches of a step.
TEST(LoaderTest, ProcessesShareTheBatchesOfAnEpoch) {
  ImageLoader whole(pictures(), training());
  whole.start_epoch(3);
  const std::vector<Batch> all = take(whole);
  for (const auto& [per_step, world] : {std::pair{1, 1}, {4, 2}, {4, 3}, {2, 4}, {7, 7}}) {
    std::vector<int> counts(all.size());
    for (int64_t rank = 0; rank < world; ++rank) {
      LoaderConfig config = training();
      config.workers = rank % 3;
      ImageLoader loader(pictures(), config);
      loader.start_epoch(0);
      loader.set_share({.per_step = per_step, .rank = rank, .world = world});
      loader.start_epoch(3);
      while (const auto batch = loader.next()) {
        ++counts[size_t(batch->index)];
        EXPECT_TRUE(torch::equal(batch->images, all[size_t(batch->index)].images));
      }
    }
    for (const int times : counts) EXPECT_EQ(times, std::max(1, world / per_step));
  }
}

TEST(LoaderTest, PartsOfABatchAreItsRowsOnce) {
  for (const int64_t rows : {4, 7, 64}) {
    int64_t next = 0;
    for (int64_t rank = 4; rank < 8; ++rank) {
      const BatchShare share{.per_step = 2, .rank = rank, .world = 8};
      EXPECT_TRUE(share.is_local(1) && !share.is_local(0));
      EXPECT_EQ(share.first_row(rows), next);
      EXPECT_GT(share.rows(rows), 0);
      next += share.rows(rows);
    }
    EXPECT_EQ(next, rows);
  }
}

TEST(LoaderTest, EvaluationIsInOrderAndPlain) {
  LoaderConfig config = training();
  config.train = false;
  ImageLoader loader(pictures(), config);
  const auto batches = take(loader);
  EXPECT_FALSE(batches[0].targets.defined());
  EXPECT_EQ(batches[1].samples, (std::vector<int64_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(batches[1].labels[1].item<int64_t>(), 1);
  loader.start_epoch(9);
  expect_equal(take(loader), batches);
}

TEST(LoaderTest, UnreadablePicturesAreReplacedUpToTheLimit) {
  LoaderConfig config = training();
  config.max_unreadable = 3;
  ImageLoader enough(pictures(50, {1, 2, 3}), config);
  for (int epoch = 0; epoch < 3; ++epoch) {
    enough.start_epoch(epoch);
    for (const Batch& batch : take(enough)) {
      for (int64_t sample : batch.samples) EXPECT_TRUE(sample == 0 || sample > 3);
    }
  }
  EXPECT_EQ(enough.unreadable(), 3);
  EXPECT_TRUE(contains(enough.unreadable_messages()[0], "picture-"));

  ImageLoader loader(pictures(50, {1, 2, 3, 4}), config);
  try {
    take(loader);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_TRUE(contains(error.what(), "More than 3"));
  }
  EXPECT_FALSE(loader.next().has_value());
}

TEST(LoaderTest, UnreadablePicturesAreErrorsInEvaluation) {
  for (int64_t workers : {0, 2}) {
    LoaderConfig config = training();
    config.train = false;
    config.workers = workers;
    ImageLoader loader(pictures(50, {20}), config);
    EXPECT_EQ(loader.next()->index, 0);
    EXPECT_EQ(loader.next()->index, 1);
    EXPECT_THROW(loader.next(), Error);
    EXPECT_FALSE(loader.next().has_value());
    loader.start_epoch(1);
    EXPECT_TRUE(loader.next().has_value());
  }
}

TEST(LoaderTest, AllUnreadableIsAnError) {
  std::set<int64_t> all;
  for (int64_t i = 0; i < 50; ++i) all.insert(i);
  ImageLoader loader(pictures(50, all), training());
  EXPECT_THROW(loader.next(), Error);
}

TEST(LoaderTest, CanBeLeftAtAnyTime) {
  for (int round = 0; round < 40; ++round) {
    LoaderConfig config = training();
    config.workers = round % 4;
    config.prefetch = 1 + round % 3;
    ImageLoader loader(pictures(), config);
    if (round % 5 == 0) continue;
    loader.start_epoch(round);
    for (int i = 0; i < round % 8; ++i) loader.next();
    if (round % 3 == 0) loader.start_epoch(round + 1, round % 9);
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
  }
}

TEST(LoaderTest, RefusesNonsense) {
  for (const auto& spoil : std::vector<std::function<void(LoaderConfig&)>>{
           [](LoaderConfig& c) { c.batch_size = 0; }, [](LoaderConfig& c) { c.workers = -1; },
           [](LoaderConfig& c) { c.prefetch = 0; }, [](LoaderConfig& c) { c.repeats = 0; },
           [](LoaderConfig& c) { c.preprocess.size = 0; },
           [](LoaderConfig& c) { c.augment.crop = ""; }, [](LoaderConfig& c) { c.mix.mixup = -1; },
           [](LoaderConfig& c) { c.batch_size = int64_t{1} << 62; }}) {
    LoaderConfig config = training();
    spoil(config);
    EXPECT_THROW(ImageLoader(pictures(), config), Error);
  }
  EXPECT_THROW(ImageLoader(pictures(0), training()), Error);
  ImageLoader loader(pictures(), training());
  EXPECT_THROW(loader.start_epoch(-1), Error);
}

#ifndef __SANITIZE_ADDRESS__  // needs the address space that the test takes away
// Some threads begin, one cannot: the others are ended, and the sentence says what was missing.
TEST(LoaderDeathTest, ThreadsThatCannotBeMade) {
  const auto refused = [] {
    const auto data = std::make_shared<FakeDataset>(4096, 16, 3);
    LoaderConfig config = training();
    config.workers = 256;
    std::ifstream pages("/proc/self/statm");
    int64_t used = 0;
    pages >> used;
    const rlim_t most = rlim_t(used * ::getpagesize()) + (rlim_t{100} << 20);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    const std::string message =
        error_of(ErrorKind::kData, [&] { ImageLoader(data, config).start_epoch(0); });
    std::exit(contains(message, "Cannot start a thread: the system has no thread") ? 0 : 1);
  };
  EXPECT_EXIT(refused(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace tost
