// The accuracy of a language model on the targets of a task (token_task.h), by group.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tost/comm/group.h"
#include "tost/data/token_task.h"
#include "tost/data/watched_read.h"
#include "tost/engine/language_scores.h"
#include "tost/kinds/language/model.h"
#include "tost/nn/precision.h"

namespace tost {

struct AnswerScores {
  std::string group;
  int64_t length = 0;               // tokens of the longest sample
  int64_t samples = 0, tokens = 0;  // tokens: those with targets
  double accuracy = 0;              // share of tokens that are the most likely
  double exact = 0;                 // share of samples with all tokens right
  double loss = 0;                  // nats a token
  int64_t state_bytes = 0;          // bytes of the model's state at the end of one sample
  double seconds = 0;               // of reading
};

// Sums of scores over the batches of a group.
class AnswerTally {
 public:
  // Adds a batch, with one score for each target in order.
  void add(const torch::Tensor& targets, const TokenScores& scores);
  // As ClassificationMeter::add_up().
  bool add_up(Group* group, bool stopped);
  AnswerScores scores() const;

 private:
  double loss_ = 0;
  int64_t samples_ = 0, tokens_ = 0, exact_ = 0, right_ = 0;
};

struct AnswerEvalOptions : LanguageEvalOptions {
  Precision precision = Precision::kFp32;  // or bf16
  int64_t samples = 0;                     // the first ones of every group; 0: all
  int64_t batch = 0;                       // samples read together; 0: as many as make 8,192 tokens
  ReadGuard read_guard = {};               // of every batch
  Group* group = nullptr;                  // of processes that each score some of the batches
};

// Scores all samples in evaluation mode without gradients. Samples of more than 2,048 tokens are
// read one by one and in pieces, so that memory is constant if the state is. `progress` counts
// samples over all groups. Returns nothing if `stop` ended it. Throws the Errors of
// check_answers_fit(), and a usage Error for samples that do not fit in memory.
std::optional<std::vector<AnswerScores>> evaluate_answers(LanguageModel& model,
                                                          const TokenTaskData& data,
                                                          const AnswerEvalOptions& options = {});

// Throws a usage Error for a vocabulary that is larger than the model's, samples beyond the model's
// positions, or targets to be restored.
void check_answers_fit(const LanguageConfig& config, const TokenTaskData& data);

// Throws a usage Error with both figures if reading or training on `samples` samples of `length`
// tokens at a time needs more than `available` bytes (0: unknown).
void check_answer_memory(const LanguageConfig& config, int64_t length, int64_t samples,
                         bool training, int64_t available);

// Returns accuracy, exact and loss (means over the groups with equal weights), tokens, and an array
// "groups" of objects with group, length, samples, tokens, accuracy, exact, loss and state_bytes.
nlohmann::json to_json(const std::vector<AnswerScores>& scores);

}  // namespace tost
