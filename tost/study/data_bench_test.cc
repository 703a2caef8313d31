#include "tost/study/data_bench.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tost/base/error.h"
#include "tost/study/data_sources.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

// Few small pictures, nothing trained.
DataBenchOptions small(const testing::TempDir& folder) {
  DataBenchOptions options;
  options.pictures = 8, options.width = 90, options.height = 70;
  options.image_size = 32, options.batch = 4, options.repeat = 2;
  options.step = false;
  options.folder = folder.path();
  return options;
}

std::vector<DataBenchRow> rows_of(const DataBenchOptions& options) {
  return run_data_bench(options, [](const DataBenchRow&) {});
}

TEST(DataBench, MeasuresEverySourceAndLeavesNothing) {
  const testing::TempDir folder;
  const auto rows = rows_of(small(folder));
  ASSERT_EQ(rows.size(), 3u * 3 * 2 + 2);  // sources x recipes x workers, and text
  for (const DataBenchRow& row : rows) {
    EXPECT_EQ(row.rates.size(), 2u);
    EXPECT_GT(row.low, 0);
    EXPECT_LE(row.low, row.median);
    EXPECT_LE(row.median, row.high);
    EXPECT_GT(row.processor_us, 0);
    EXPECT_EQ(row.plain > 0, row.source == "jpeg" || row.source == "png") << row.source;
    EXPECT_EQ(row.unit, row.source == "text" ? "tokens/s" : "images/s");
    EXPECT_EQ(row.step_model, "");
    EXPECT_EQ(row.step, 0);
  }
  EXPECT_EQ(rows[0].size, 32);
  EXPECT_EQ(rows[1].workers, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DataBench, SlowTellsWhatDecodingReducedChanges) {
  const testing::TempDir folder;
  auto options = small(folder);
  options.sources = {"jpeg", "png"};
  options.recipes = {"imagenet", "eval"};
  options.workers = {1};
  options.pictures = 4;
  options.width = 700, options.height = 300;  // larger than can be drawn
  options.image_size = 16;                    // parts of 32 pixels are decoded at half their size
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_GT(rows[0].deviation, 0.1);
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i].deviation, 0) << i;
}

TEST(DataBench, RefusesPicturesThatAreNotThoseOfAPlainDecode) {
  const testing::TempDir folder;
  const auto options = small(folder);
  for (const char* name : {"jpeg", "png", "raw"}) {
    PictureSource source = make_picture_source(name, options, folder.path());
    const LoaderConfig config = loader_config(source, "eval", options, 1);
    EXPECT_EQ(check_pictures(source, config), 0);
    source.plain = [plain = source.plain](int64_t i) {
      Image picture = plain(i);
      ++picture.pixels[7];
      return picture;
    };
    EXPECT_THROW(check_pictures(source, config), Error) << name;
  }
}

TEST(DataBench, SlowMeasuresTheStepOfEachModelOnce) {
  const testing::TempDir folder;
  auto options = small(folder);
  options.sources = {"raw", "text"};
  options.recipes = {"small"};
  options.precision = Precision::kFp32;
  options.step = true;
  options.repeat = 1;
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].step_model, "tost_nano_p4");
  EXPECT_EQ(rows[2].step_model, "tost_gpt_char");
  for (size_t i : {0, 2}) {
    EXPECT_GT(rows[i].step, 0);
    EXPECT_EQ(rows[i].step, rows[i + 1].step);
  }
  options.sources = {"png", "raw"};
  options.model = options.raw_model;
  options.image_size = 16;
  const auto two_sizes = rows_of(options);
  ASSERT_EQ(two_sizes.size(), 4u);
  EXPECT_NE(two_sizes[0].step, two_sizes[2].step);
}

TEST(DataBench, RefusesBadOptions) {
  const testing::TempDir folder;
  const auto refused = [&](const auto& change) {
    auto options = small(folder);
    change(options);
    return !testing::usage_error_of([&] { rows_of(options); }).empty();
  };
  EXPECT_TRUE(refused([](auto& o) { o.sources = {"gif"}; }));
  EXPECT_TRUE(refused([](auto& o) { o.sources = {}; }));
  EXPECT_TRUE(refused([](auto& o) { o.recipes = {"imagenets"}; }));
  EXPECT_TRUE(refused([](auto& o) { o.workers = {0}; }));
  EXPECT_TRUE(refused([](auto& o) { o.workers = {3}; }));  // 8 pictures, batches of 4
  EXPECT_TRUE(refused([](auto& o) { o.width = 8193; }));
  EXPECT_TRUE(refused([](auto& o) { o.repeat = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.model = "tost_gpt_base"; }));
  EXPECT_TRUE(refused([](auto& o) { o.text_model = "tost_nano_p4"; }));
  EXPECT_THROW(step_precision("int8"), Error);
  EXPECT_THROW(step_precision("fp32,bf16"), Error);
  EXPECT_TRUE(refused([](auto& o) { o.step = true, o.image_size = 30; }));  // patches of 16
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DataBench, SaysWhichFolderItCannotUse) {
  const testing::TempDir folder;
  auto options = small(folder);
  options.folder = folder.path() / "missing";
  const std::string said = testing::data_error_of([&] { rows_of(options); });
  EXPECT_TRUE(testing::mentions(said, "No such file or directory; name another")) << said;
  EXPECT_TRUE(testing::mentions(said, "--folder")) << said;
}

TEST(PlainJpeg, RefusesWhatIsNoJpeg) {
  EXPECT_THROW(decode_jpeg_plainly("no picture"), Error);
  EXPECT_THROW(decode_jpeg_plainly(""), Error);
}

TEST(DataReport, SaysWhatWasMeasuredAndWhatWasNot) {
  DataBenchRow row{.source = "jpeg", .recipe = "imagenet", .unit = "images/s"};
  row.size = 224, row.batch = 16, row.workers = 2;
  row.rates = {190, 200, 210}, row.low = 195, row.median = 200, row.high = 205;
  row.processor_us = 9000, row.plain = 400, row.deviation = 1.25;
  row.step_model = "m", row.step_precision = Precision::kBf16, row.step_threads = 2, row.step = 50;
  DataBenchRow text{.source = "text", .recipe = "crops", .unit = "tokens/s"};
  text.median = text.low = text.high = 2.5e7, text.processor_us = 0.004;
  BenchOrigin origin;
  origin.cpu = "a,b";
  const auto json = data_bench_json({row, text}, origin);
  EXPECT_EQ(json["rows"][0]["times_the_step"], 4.0);
  EXPECT_EQ(json["rows"][0]["of_plain"], 0.5);
  EXPECT_EQ(json["rows"][0]["rates"].size(), 3u);
  EXPECT_TRUE(json["rows"][1]["step"].is_null());
  EXPECT_TRUE(json["rows"][1]["plain"].is_null());
  EXPECT_TRUE(json["rows"][1]["of_plain"].is_null());
  std::istringstream csv(data_bench_csv({row, text}, origin));
  std::string line;
  for (const char* begin : {"source,recipe,size,", "jpeg,imagenet,224,16,2,200.0,195.0,205.0,",
                            "text,crops,0,0,0,25000000.0,"}) {
    ASSERT_TRUE(std::getline(csv, line));
    EXPECT_EQ(line.substr(0, std::string(begin).size()), begin);
  }
  const auto md = data_bench_markdown({row, text}, origin);
  EXPECT_NE(md.find("| jpeg | imagenet | 224 | 2 | 200 [195, 205] images/s | 9000 µs | 400 | 0.50 "
                    "| 50.0 (m, bf16, 2 threads) | 4.00 | 1.2 |"),
            std::string::npos)
      << md;
  EXPECT_NE(md.find("| 25.0 M [25.0 M, 25.0 M] tokens/s | 4.00 ns | "), std::string::npos) << md;
}

}  // namespace
}  // namespace tost
