// Sets of labelled sequences of tokens, and the function that opens any such set. Free of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

struct SequenceSample {
  std::vector<int32_t> tokens;  // 1 ... vocab - 1, at least one; 0 is padding and never in a sample
  std::vector<int32_t> second;  // the other document of a pair; empty for single sequences
  int64_t label = 0;
};

// The encoding of data as tokens; a model needs data of the same encoding.
struct SequenceCoding {
  std::string kind;   // "listops", "bytes", "pixels"
  int64_t vocab = 0;  // ids, padding included: 16, 257, 257
  bool pairs = false;

  bool operator==(const SequenceCoding&) const = default;
};

// A data set is immutable after construction, and several threads may call its members at once.
class SequenceDataset {
 public:
  virtual ~SequenceDataset() = default;

  virtual int64_t size() const = 0;
  virtual SequenceSample sample(int64_t i) const = 0;  // may throw a data Error naming the place
  virtual int64_t label(int64_t i) const = 0;          // 0 ... classes().size() - 1
  // The number of tokens of sample(i), or of the longer text of a pair; avoids reading the sample.
  virtual int64_t length(int64_t i) const = 0;
  virtual const std::vector<std::string>& classes() const = 0;
  virtual SequenceCoding coding() const = 0;
  virtual std::string format() const = 0;  // as in SequenceSpec, never "auto"
  virtual std::string name(int64_t i) const = 0;
};

struct SequenceSpec {
  // A file, a folder, a prefix of the names of tables in a folder ("listops/lra_basic"), or the
  // generated set "listops". A word in a table's name (train, val, eval, test) names its split; a
  // table without such a word is for training.
  std::string path = "listops";
  // auto, or one of
  //   listops     TSV: Source, Target with a header, or label, expression without one
  //   text        class folders, in train/, test/ or without; TSV: label, text
  //   retrieval   TSV: label, id, id, text, text
  //   pixels      any set of pictures, in grey, row after row
  std::string format = "auto";
  // The length in tokens to which longer sequences are cut; 0: no limit.
  int64_t max_length = 0;
  // The share of training samples that becomes the validation split if there is none; -1: 5 %, at
  // most 5,000.
  double holdout = -1;
  // Options of the generated sets.
  uint64_t seed = 0;
  int64_t train_size = 10'000;
  int64_t test_size = 1'000;   // also of the validation split
  int64_t min_tokens = 500;    // listops: lengths are between these two, exclusive as in the
  int64_t max_tokens = 2'000;  // official generator
  int64_t max_depth = 10;      // listops
  int64_t max_arguments = 10;  // listops
};

// Throws a usage Error for an unknown format or impossible sizes.
void check_sequence_spec(const SequenceSpec& spec);

// Opens one split: "train", "validation" (or "val") or "test". Throws a usage Error for an unknown
// format or split and impossible sizes, and a data Error naming file and line of missing or
// malformed data.
std::unique_ptr<SequenceDataset> open_sequence_dataset(const SequenceSpec& spec,
                                                       const std::string& split);

// Whether the path holds labelled sequences, by the spec's format or, for "auto", by its files.
// Returns false for pictures that open_image_dataset reads, and if no format is recognised.
bool is_sequence_data(const SequenceSpec& spec);

// The splits that open_sequence_dataset can open, in the order train, validation, test.
std::vector<std::string> sequence_dataset_splits(const SequenceSpec& spec);

// The sequences of a set as bytes in memory or in a mapped file. Free of torch.
struct SequenceRows {
  std::string format;
  SequenceCoding coding;
  std::vector<std::string> classes;
  std::shared_ptr<const void> owner;    // of the memory that `texts` point into
  std::vector<std::string_view> texts;  // token - 1 each; of pairs two a sample
  std::vector<int32_t> labels;          // one a sample
  std::function<std::string(int64_t)> name;
};

class StoredSequences : public SequenceDataset {
 public:
  // Cuts every text to `max_length` bytes; 0: no limit. The caller must refuse empty texts.
  StoredSequences(SequenceRows rows, int64_t max_length);

  int64_t size() const override { return static_cast<int64_t>(rows_.labels.size()); }
  SequenceSample sample(int64_t i) const override;
  int64_t label(int64_t i) const override { return rows_.labels[static_cast<size_t>(i)]; }
  int64_t length(int64_t i) const override;
  const std::vector<std::string>& classes() const override { return rows_.classes; }
  SequenceCoding coding() const override { return rows_.coding; }
  std::string format() const override { return rows_.format; }
  std::string name(int64_t i) const override { return rows_.name(i); }

 private:
  SequenceRows rows_;
};

// A subset of a data set's sequences, in the order of `indices`.
class SequenceSubset : public SequenceDataset {
 public:
  SequenceSubset(std::shared_ptr<const SequenceDataset> whole, std::vector<int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  SequenceSample sample(int64_t i) const override { return whole_->sample(at(i)); }
  int64_t label(int64_t i) const override { return whole_->label(at(i)); }
  int64_t length(int64_t i) const override { return whole_->length(at(i)); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  SequenceCoding coding() const override { return whole_->coding(); }
  std::string format() const override { return whole_->format(); }
  std::string name(int64_t i) const override { return whole_->name(at(i)); }

 private:
  int64_t at(int64_t i) const { return indices_[static_cast<size_t>(i)]; }
  std::shared_ptr<const SequenceDataset> whole_;
  std::vector<int64_t> indices_;
};

}  // namespace tost
