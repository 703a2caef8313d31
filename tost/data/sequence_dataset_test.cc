// Opening labelled sequences: what is recognised, how splits are made, what is refused.
#include "tost/data/sequence_dataset.h"

#include "tests/testing/shared.h"
#include "tost/data/data_test_util.h"
#include "tost/io/views.h"

namespace tost {
namespace {

using namespace tost::testing;
using Splits = std::vector<std::string>;

class SequenceOpen : public FolderTest {
 protected:
  SequenceSpec at(const std::string& name) const {
    SequenceSpec spec;
    spec.path = (folder_ / name).string();
    return spec;
  }

  static std::string refused(const SequenceSpec& spec, const std::string& split = "train",
                             ErrorKind kind = ErrorKind::kData) {
    try {
      open_sequence_dataset(spec, split);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "opened";
    return "";
  }
};

std::string text_of(const SequenceDataset& data, int64_t i) {
  std::string text;
  for (const int32_t token : data.sample(i).tokens) text.push_back(static_cast<char>(token - 1));
  return text;
}

TEST_F(SequenceOpen, APrefixInTheCurrentFolder) {
  write("basic_train.tsv", "Source\tTarget\n[MAX 1 2 ]\t2\n7\t7\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  SequenceSpec spec;
  spec.path = "basic";
  spec.holdout = 0;
  const int64_t size = open_sequence_dataset(spec, "train")->size();
  std::filesystem::current_path(before);
  EXPECT_EQ(size, 2);
}

TEST_F(SequenceOpen, GeneratedListOps) {
  SequenceSpec spec;
  spec.train_size = 6;
  spec.test_size = 3;
  EXPECT_EQ(sequence_dataset_splits(spec), (Splits{"train", "validation", "test"}));
  const auto train = open_sequence_dataset(spec, "train");
  EXPECT_EQ(train->size(), 6);
  EXPECT_EQ(open_sequence_dataset(spec, "val")->size(), 3);
  EXPECT_EQ(train->coding(), (SequenceCoding{"listops", 16, false}));
  for (int64_t i = 0; i < 6; ++i) {
    const SequenceSample sample = train->sample(i);
    EXPECT_EQ(static_cast<int64_t>(sample.tokens.size()), train->length(i));
    EXPECT_GT(train->length(i), 500);
    EXPECT_LT(train->length(i), 2000);
    EXPECT_EQ(sample.label, train->label(i));
    for (const int32_t token : sample.tokens) EXPECT_TRUE(token >= 1 && token <= 15);
  }
  spec.max_length = 100;
  EXPECT_EQ(open_sequence_dataset(spec, "train")->length(0), 100);
  EXPECT_EQ(open_sequence_dataset(spec, "train")->label(0), train->label(0));
}

TEST_F(SequenceOpen, TablesShowTheirSplitByTheirNames) {
  write("basic_train.tsv", "Source\tTarget\n[MIN 3 4 ]\t3\n5\t5\n");
  write("basic_val.tsv", "Source\tTarget\n5\t5\n");
  write("basic_test.tsv", "Source\tTarget\n6\t6\n");
  EXPECT_EQ(sequence_dataset_splits(at("")), (Splits{"train", "validation", "test"}));
  EXPECT_EQ(open_sequence_dataset(at(""), "train")->format(), "listops");
  EXPECT_EQ(open_sequence_dataset(at(""), "test")->label(0), 6);
  EXPECT_EQ(sequence_dataset_splits(at("basic_val.tsv")), (Splits{"validation"}));

  write("other-test.tsv", "6\t6\n");
  EXPECT_TRUE(contains(refused(at("")), "two tables for the test split"));
  const std::string text = refused(at(""));
  EXPECT_TRUE(contains(text, "/basic_'") || contains(text, "/other-'")) << text;
  EXPECT_EQ(sequence_dataset_splits(at("basic")), (Splits{"train", "validation", "test"}));
  EXPECT_EQ(sequence_dataset_splits(at("other")), (Splits{"test"}));
  EXPECT_TRUE(contains(refused(at("other")), "has no train split; it has test"));
  EXPECT_TRUE(contains(refused(at("another")), "no file or directory"));
  SequenceSpec misspelt;
  misspelt.path = "listop";
  EXPECT_TRUE(contains(refused(misspelt), "Did you mean 'listops'?"));
  write("half/train.tsv", "Source\n[MIN 3 4 ]\n");
  EXPECT_TRUE(contains(refused(at("half/train.tsv")), "the column Target"));
}

TEST_F(SequenceOpen, OneTableHoldsItsValidationOut) {
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += cat(i % 10, "\t", i % 10, "\n");
  write("numbers.tsv", rows);
  EXPECT_EQ(sequence_dataset_splits(at("numbers.tsv")), (Splits{"train", "validation"}));
  EXPECT_EQ(open_sequence_dataset(at("numbers.tsv"), "train")->size(), 38);
  EXPECT_EQ(open_sequence_dataset(at("numbers.tsv"), "validation")->size(), 2);
  SequenceSpec whole = at("numbers.tsv");
  whole.holdout = 0;
  EXPECT_EQ(open_sequence_dataset(whole, "train")->size(), 40);
  EXPECT_EQ(open_sequence_dataset(whole, "train")->name(3), whole.path + ":4");
  EXPECT_TRUE(contains(refused(whole, "validation"), "held-out share"));
}

TEST_F(SequenceOpen, TextTables) {
  write("train.tsv", "label\ttext\n2\tgood \xff\n10\tbad\n");
  write("test.tsv", "10\tworse than bad\n");
  SequenceSpec spec = at("");
  spec.holdout = 0;
  const auto train = open_sequence_dataset(spec, "train");
  EXPECT_EQ(train->format(), "text");
  EXPECT_EQ(train->coding(), (SequenceCoding{"bytes", 257, false}));
  EXPECT_EQ(train->classes(), (Splits{"2", "10"}));
  EXPECT_EQ(train->sample(0).tokens.back(), 256);
  EXPECT_EQ(text_of(*train, 0), "good \xff");
  EXPECT_EQ(open_sequence_dataset(spec, "test")->label(0), 1);
  spec.max_length = 5;
  EXPECT_EQ(text_of(*open_sequence_dataset(spec, "test"), 0), "worse");

  write("test.tsv", "10\tfine\n3\tneither\n");
  EXPECT_TRUE(contains(refused(spec, "test"), "Line 2 of"));
  EXPECT_TRUE(contains(refused(spec, "test"), "the label '3'; known are 2, 10"));
  write("test.tsv", "10\t\n");
  EXPECT_TRUE(contains(refused(spec, "test"), "empty text in column 2"));
  write("test.tsv", "10\ta\tb\n");
  EXPECT_TRUE(contains(refused(spec, "test"), "has 3 columns"));
}

TEST_F(SequenceOpen, PairsAsReleased) {
  write("new_aan_pairs.train.tsv", "1.0\t7\t8\tone text\tanother\n0.0\t7\t9\tone text\tx\n");
  write("new_aan_pairs.eval.tsv", "1\t7\t8\ta\tb\n");
  write("new_aan_pairs.test.tsv", "0.0\t7\t8\ta\t\n");
  EXPECT_EQ(sequence_dataset_splits(at("")), (Splits{"train", "validation", "test"}));
  const auto train = open_sequence_dataset(at(""), "train");
  EXPECT_EQ(train->format(), "retrieval");
  EXPECT_EQ(train->coding(), (SequenceCoding{"bytes", 257, true}));
  EXPECT_EQ(train->classes(), (Splits{"0", "1"}));
  EXPECT_EQ(train->label(0), 1);
  EXPECT_EQ(train->length(0), 8);
  EXPECT_EQ(train->sample(0).second.size(), 7u);
  EXPECT_EQ(open_sequence_dataset(at(""), "validation")->label(0), 1);
  EXPECT_TRUE(contains(refused(at(""), "test"), "empty text in column 5"));
  write("new_aan_pairs.test.tsv", "0.5\t7\t8\ta\tb\n");
  EXPECT_TRUE(contains(refused(at(""), "test"), "the label '0.5'"));
}

TEST_F(SequenceOpen, TextFolders) {
  write("train/pos/1.txt", "good");
  write("train/neg/2.txt", "bad");
  write("train/unsup/3.txt", "neither");
  write("test/pos/4.txt", "fine");
  SequenceSpec spec = at("");
  spec.holdout = 0;
  EXPECT_EQ(sequence_dataset_splits(spec), (Splits{"train", "test"}));
  const auto train = open_sequence_dataset(spec, "train");
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(train->classes(), (Splits{"neg", "pos"}));
  EXPECT_EQ(text_of(*train, 0), "bad");
  EXPECT_EQ(open_sequence_dataset(spec, "test")->label(0), 1);
  write("test/neg/5.txt", "");
  EXPECT_TRUE(contains(refused(spec, "test"), "5.txt' is empty"));
  write("test/neg/5.txt", "worse");
  write("test/other/6.txt", "x");
  EXPECT_TRUE(contains(refused(spec, "test"), "'other' that the training split does not have"));
}

TEST_F(SequenceOpen, TextFoldersOfTestingAlone) {
  write("test/pos/1.txt", "fine");
  write("test/neg/2.txt", "worse");
  write("test/neg/Thumbs.db", "no text");
  EXPECT_EQ(sequence_dataset_splits(at("")), Splits{"test"});
  const auto test = open_sequence_dataset(at(""), "test");
  EXPECT_EQ(test->size(), 2);
  EXPECT_EQ(test->label(1), 1);
  EXPECT_TRUE(contains(refused(at(""), "train"), "has no train split; it has test."));
}

// Whatever the file system names first.
TEST_F(SequenceOpen, AFewStraysDecideNothing) {
  for (const char* kind : {"a", "b"}) {
    for (const char* name : {"1.png", "2.png", "3.png"}) {
      write(cat("pictures/", kind, "/", name), encode_png(Image(3, 2, 3)));
      write(cat("texts/", kind, "/", name, ".txt"), "good");
    }
    for (const char* name : {"Thumbs.db", "desktop.ini", ".DS_Store", "notes.md", "todo"}) {
      write(cat("pictures/", kind, "/", name), "no picture");
    }
    write(cat("texts/", kind, "/logo.png"), encode_png(Image(3, 2, 3)));
  }
  write("pictures/notes.md", "no class");
  EXPECT_FALSE(is_sequence_data(at("pictures")));
  EXPECT_TRUE(is_sequence_data(at("texts")));
}

TEST_F(SequenceOpen, LabelsAreUtf8) {
  write("train.tsv",
        "good\ta text\nb\xE4"
        "d\tanother\n");
  EXPECT_TRUE(contains(refused(at(""), "train"), "the label 'b\\xe4d' is not UTF-8"));
}

TEST_F(SequenceOpen, FoldsByTheirFileNames) {
  for (const char* folder : {"pos", "neg"}) {
    for (const char* name : {"cv000_1.txt", "cv799_2.txt", "cv800_3.txt", "cv999_4.txt"}) {
      write(cat(folder, "/", name), cat(folder, name));
    }
  }
  EXPECT_EQ(sequence_dataset_splits(at("")), (Splits{"train", "validation", "test"}));
  EXPECT_EQ(open_sequence_dataset(at(""), "train")->size(), 4);
  const auto validation = open_sequence_dataset(at(""), "validation");
  ASSERT_EQ(validation->size(), 2);
  EXPECT_EQ(text_of(*validation, 0), "negcv800_3.txt");
  write("pos/5.txt", "no fold");
  EXPECT_EQ(sequence_dataset_splits(at("")), (Splits{"train", "validation"}));
}

TEST_F(SequenceOpen, PicturesRowAfterRow) {
  Image image(3, 2, 3);
  for (size_t k = 0; k < image.pixels.size(); ++k) image.pixels[k] = static_cast<uint8_t>(k * 9);
  write("train/a/1.png", encode_png(image));
  write("train/b/2.png", encode_png(Image(3, 2, 3)));
  SequenceSpec spec = at("");
  spec.holdout = 0;
  const auto data = open_sequence_dataset(spec, "train");
  EXPECT_EQ(data->format(), "pixels");
  EXPECT_EQ(data->coding(), (SequenceCoding{"pixels", 257, false}));
  ASSERT_EQ(data->length(0), 6);
  // 0.299 * 27 + 0.587 * 36 + 0.114 * 45 = 34.3 for the second pixel
  EXPECT_EQ(data->sample(0).tokens[1], 35);
  EXPECT_EQ(data->sample(1).tokens, std::vector<int32_t>(6, 1));
  write("train/b/3.png", encode_png(Image(2, 2, 3)));
  const auto mixed = open_sequence_dataset(spec, "train");
  try {
    mixed->sample(2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "3.png' is 2 x 2, the first one 3 x 2"));
  }
}

TEST_F(SequenceOpen, RefusesWhatItCannotMean) {
  SequenceSpec spec;
  spec.format = "listop";
  EXPECT_TRUE(contains(refused(spec, "train", ErrorKind::kUsage), "Did you mean 'listops'"));
  spec.format = "auto";
  EXPECT_TRUE(contains(refused(spec, "trian", ErrorKind::kUsage), "Did you mean 'train'"));
  spec.holdout = 1.5;
  EXPECT_TRUE(contains(refused(spec, "train", ErrorKind::kUsage), "between 0 and 1"));
  spec.holdout = -1;
  spec.max_length = -3;
  EXPECT_TRUE(contains(refused(spec, "train", ErrorKind::kUsage), "not to -3"));
  spec.max_length = 0;
  spec.train_size = 0;
  EXPECT_TRUE(contains(refused(spec, "train", ErrorKind::kUsage), "1 to 100,000,000"));
  spec.train_size = int64_t{1} << 60;
  EXPECT_TRUE(contains(refused(spec, "train", ErrorKind::kUsage), "1 to 100,000,000"));
  spec.train_size = 100'000'000;
  spec.max_tokens = 1'000'000;
  EXPECT_TRUE(contains(refused(spec), "of memory"));
  write("table.tsv", "a\tb\tc\n");
  EXPECT_TRUE(contains(refused(at("table.tsv")), "has 3 columns"));
}

TEST(SequenceRealData, MovieReviews) {
  TOST_SHARED_OR_SKIP(path, "data/movie-reviews");
  SequenceSpec spec;
  spec.path = path.string();
  spec.max_length = 4096;
  EXPECT_EQ(open_sequence_dataset(spec, "train")->size(), 1'600);
  EXPECT_EQ(open_sequence_dataset(spec, "validation")->size(), 200);
  const auto test = open_sequence_dataset(spec, "test");
  EXPECT_EQ(test->size(), 200);
  EXPECT_EQ(test->classes(), (Splits{"neg", "pos"}));
}

TEST(SequenceRealData, ListOpsByTheBeginningOfTheirNames) {
  TOST_SHARED_OR_SKIP(path, "data/listops");
  SequenceSpec spec;
  spec.path = (path / "lra_basic").string();
  EXPECT_EQ(sequence_dataset_splits(spec), (Splits{"validation", "test"}));
  EXPECT_EQ(open_sequence_dataset(spec, "test")->size(), 300);
}

}  // namespace
}  // namespace tost
