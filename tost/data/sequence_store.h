// Sequences that lie in memory or in a mapped file as bytes, and parts of a data set. Free of
// torch.
#pragma once

#include <functional>
#include <string_view>

#include "tost/data/sequence_dataset.h"

namespace tost {

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
  // Cuts every text to `max_length` bytes; 0: nothing. Texts must not be empty, which the readers
  // have checked.
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

// Some of a data set's sequences, in the order given.
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
