// Scores a classifier of sequences over a data set, and labels texts by it.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tost/comm/group.h"
#include "tost/data/sequence_batch.h"
#include "tost/data/sequence_dataset.h"
#include "tost/data/watched_read.h"
#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/file.h"
#include "tost/nn/metrics.h"
#include "tost/nn/precision.h"

namespace tost {

struct SequenceEvalOptions {
  int64_t batch = 32;
  Precision precision = Precision::kFp32;  // or bf16
  const std::atomic<bool>* stop = nullptr;
  std::function<void(int64_t sequences, int64_t total)> progress = {};  // after every batch
  ReadGuard read_guard = {};                                            // of every batch
  Group* group = nullptr;  // of processes that each score some of the batches
};

// About a quarter of the sequences by length; all sequences of one length are in the same quarter.
struct LengthQuarter {
  int64_t shortest = 0, longest = 0;  // tokens; of pairs those of the longer one
  int64_t sequences = 0;
  double top1 = 0;
};

struct SequenceEvalResult {
  ClassScores scores;
  double seconds = 0;                   // of the whole pass, data included
  std::vector<LengthQuarter> quarters;  // fewer than four for few sequences or lengths
};

// Scores every sequence once, in evaluation mode without gradients, and restores the model's mode.
// Sequences are sorted by length, to reduce padding. Returns nothing if `stop` ended it. Throws a
// usage Error for a batch below 1 and an empty data set, and the Errors of forward() and sample().
std::optional<SequenceEvalResult> evaluate(SequenceClassifier& model,
                                           const SequenceDataset& dataset,
                                           const SequenceEvalOptions& options = {});

// The logits of a batch of single sequences or of pairs.
torch::Tensor forward_batch(SequenceClassifier& model, const SequenceBatch& batch);
// Logits on the CPU, without gradients. Throws a usage Error for precisions that modules lack.
torch::Tensor sequence_logits(SequenceClassifier& model, const SequenceBatch& batch,
                              Precision precision);

// top1, loss, sequences, seconds.
nlohmann::json to_json(const SequenceEvalResult& result);

// Encodes a text with the coding of the model's data: at most info.cut bytes, or symbols of a
// ListOps expression. Throws a usage Error for an empty or malformed text, and for a model of
// pictures.
std::vector<int32_t> encode_text(const SequenceInfo& info, const std::string& text);

// A text, and the second text for a model of pairs.
struct SequenceText {
  std::string text, second = "";
};

// Predicts each text in order; the path of a prediction is the text. `model` must be in evaluation
// mode. Throws the Errors of encode_text(), and a usage Error for top_k < 1 and for pairs if the
// model takes none.
std::vector<Prediction> predict_texts(SequenceClassifier& model, const SequenceInfo& info,
                                      const std::vector<SequenceText>& texts,
                                      const PredictOptions& options = {});

}  // namespace tost
