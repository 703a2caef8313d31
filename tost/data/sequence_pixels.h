// Pictures as sequences: grey, row after row, token = value + 1. Free of torch.
#pragma once

#include "tost/data/dataset.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

class PixelSequences : public SequenceDataset {
 public:
  // Every picture must be as large as the first, or sample() throws a data Error naming it. Colours
  // become grey by the weights of ITU-R 601 (0.299, 0.587, 0.114).
  PixelSequences(std::shared_ptr<const ImageDataset> pictures, std::string format,
                 int64_t max_length);

  int64_t size() const override { return pictures_->size(); }
  SequenceSample sample(int64_t i) const override;
  int64_t label(int64_t i) const override { return pictures_->label(i); }
  int64_t length(int64_t) const override { return length_; }
  const std::vector<std::string>& classes() const override { return pictures_->classes(); }
  SequenceCoding coding() const override { return {"pixels", 257, false}; }
  std::string format() const override { return format_; }
  std::string name(int64_t i) const override { return pictures_->name(i); }

 private:
  std::shared_ptr<const ImageDataset> pictures_;
  std::string format_;
  int64_t width_ = 0, height_ = 0, length_ = 0;
};

// The sequences as pictures again, for looking at; square ones alone. Throws a usage Error for
// sequences that are not whole square pictures.
std::unique_ptr<ImageDataset> pictures_of(std::shared_ptr<const SequenceDataset> data);

}  // namespace tost
