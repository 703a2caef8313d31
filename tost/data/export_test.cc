// Generated sequences written as files: what is written is what is read, at once or not at all.
#include "tost/data/export.h"

#include "tost/data/data_test_util.h"

namespace tost {
namespace {

using namespace tost::testing;
namespace fs = std::filesystem;

class SequenceExportTest : public FolderTest {
 protected:
  static SequenceSpec small() {
    SequenceSpec spec;
    spec.train_size = 25;
    spec.test_size = 12;
    spec.seed = 7;
    spec.min_tokens = 5;
    spec.max_tokens = 60;
    return spec;
  }

  std::string out() const { return (folder_ / "out").string(); }

  std::string refused(const SequenceSpec& spec, ErrorKind kind) const {
    return error_of(kind, [&] { export_listops(spec, out()); });
  }

  void expect_same(const SequenceSpec& made) const {
    SequenceSpec written;
    written.path = out();
    EXPECT_EQ(sequence_dataset_splits(written),
              (std::vector<std::string>{"train", "validation", "test"}));
    for (const char* split : {"train", "validation", "test"}) {
      const auto a = open_sequence_dataset(made, split), b = open_sequence_dataset(written, split);
      ASSERT_EQ(a->size(), b->size());
      EXPECT_EQ(a->coding(), b->coding());
      for (int64_t i = 0; i < a->size(); ++i) {
        EXPECT_EQ(a->sample(i).tokens, b->sample(i).tokens) << split << i;
        EXPECT_EQ(a->label(i), b->label(i)) << split << i;
      }
    }
  }

  int64_t entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
};

TEST_F(SequenceExportTest, ListOpsAsTheOfficialTables) {
  const SequenceExport result = export_listops(small(), out());
  EXPECT_EQ(result.samples, 49);
  EXPECT_TRUE(fs::is_regular_file(folder_ / "out" / "basic_val.tsv"));
  expect_same(small());
  EXPECT_EQ(entries(), 1);
}

TEST_F(SequenceExportTest, StoppedItLeavesNothing) {
  ExportOptions options;
  int calls = 0;
  options.stop = [&] { return ++calls > 1; };
  int64_t last = 0;
  options.progress = [&](int64_t done, int64_t total) {
    last = done;
    EXPECT_EQ(total, 49);
  };
  EXPECT_EQ(export_listops(small(), out(), options).samples, 0);
  EXPECT_EQ(last, 25);
  EXPECT_EQ(entries(), 0);
}

TEST_F(SequenceExportTest, RefusesBeforeItBegins) {
  SequenceSpec spec = small();
  spec.train_size = 0;
  EXPECT_TRUE(contains(refused(spec, ErrorKind::kUsage), "not 0"));
  spec = small();
  spec.max_depth = 0;
  EXPECT_TRUE(contains(refused(spec, ErrorKind::kUsage), "1 to 100 levels"));
  EXPECT_EQ(entries(), 0);
  write("out/file", "x");
  EXPECT_TRUE(contains(refused(small(), ErrorKind::kUsage), "not an empty folder"));
}

TEST_F(SequenceExportTest, AnEmptyFolderIsFilled) {
  fs::create_directories(folder_ / "out");
  export_listops(small(), out() + "/");
  expect_same(small());
}

}  // namespace
}  // namespace tost
