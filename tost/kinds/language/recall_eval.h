// How much of what it has read a language model finds again, by case and by distance.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tost/comm/group.h"
#include "tost/data/recall_data.h"
#include "tost/data/watched_read.h"
#include "tost/kinds/language/scores.h"

namespace tost {

// Questions whose answers stand `low` to `high` tokens back.
struct RecallDistances {
  int64_t low = 0, high = 0, tokens = 0;
  double accuracy = 0;
};

struct RecallScores {
  RecallCase size = {};
  int64_t samples = 0, tokens = 0;              // tokens: those that are asked for
  double accuracy = 0;                          // share of tokens that are the most likely
  double exact = 0;                             // share of samples with all tokens right
  double loss = 0;                              // nats a token
  std::vector<RecallDistances> distances = {};  // quarters of the tokens, near to far
  int64_t state_bytes = 0;                      // what the model remembers of one sample at its end
  double seconds = 0;                           // of reading
};

// Sums over batches of one case.
class RecallTally {
 public:
  explicit RecallTally(const RecallCase& size) { scores_.size = size; }
  // One score a target of the batch, in order.
  void add(const RecallBatch& batch, const TokenScores& scores);
  // As ClassificationMeter::add_up().
  bool add_up(Group* group, bool stopped);
  RecallScores scores() const;

 private:
  RecallScores scores_;
  double loss_ = 0;
  int64_t exact_ = 0;
  std::vector<std::pair<int64_t, bool>> found_;  // distance, right
};

struct RecallEvalOptions : LanguageEvalOptions {
  std::string split = "test";
  int64_t samples = 200;      // of every case
  int64_t batch = 0;          // samples read together; 0: as many as make 8,192 tokens
  ReadGuard read_guard = {};  // of every batch, whose text may lie on a disk
  Group* group = nullptr;     // of processes that each score some of the batches
};

// Samples 0 ... samples - 1 of every case. Samples beyond 2,048 tokens are read one by one and in
// pieces, so that a state of constant size means constant memory. Without gradients, in evaluation
// mode, deterministic. progress counts samples over all cases. Nothing when `stop` ended it. Throws
// a usage Error for impossible settings, cases beyond the model's positions or the memory, and a
// vocabulary that is larger than the model's.
std::optional<std::vector<RecallScores>> evaluate_recall(LanguageModel& model,
                                                         const RecallSource& source,
                                                         const std::vector<RecallCase>& cases,
                                                         const RecallEvalOptions& options = {});

// Throws that usage Error, memory apart.
void check_recall_fits(const LanguageConfig& config, const RecallSource& source,
                       const std::vector<RecallCase>& cases);

// Throws a usage Error with both figures where reading `samples` samples of `length` tokens at a
// time, or training on them, takes more than `available` bytes at the very least. Nothing is
// refused where `available` is 0, which means unknown.
void check_recall_memory(const LanguageConfig& config, int64_t length, int64_t samples,
                         bool training, int64_t available);

struct RecallTotals {
  double accuracy = 0, exact = 0, loss = 0;
  int64_t tokens = 0;
};
// Means over the cases, each with the same weight.
RecallTotals recall_totals(const std::vector<RecallScores>& scores);

// length, pairs (where recall_has_pairs()), depth (needle; null where drawn), samples, tokens,
// accuracy, exact, loss, distances [{from, to, tokens, accuracy}], state_bytes.
nlohmann::json to_json(const RecallScores& scores, const std::string& task);

}  // namespace tost
