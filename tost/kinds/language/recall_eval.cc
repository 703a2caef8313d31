#include "tost/kinds/language/recall_eval.h"

#include <algorithm>
#include <chrono>

#include "tost/base/error.h"
#include "tost/comm/sums.h"
#include "tost/io/parse_json.h"
#include "tost/nn/evaluation_mode.h"
#include "tost/nn/model_room.h"
#include "tost/nn/module_device.h"
#include "tost/nn/precision.h"

namespace tost {

using nlohmann::json;
using torch::Tensor;

namespace {

constexpr int64_t kTokensAtOnce = 8192;

// A single sample, its state carried from piece to piece.
TokenScores score_in_pieces(LanguageModel& model, const RecallBatch& batch, LanguageState& state) {
  std::vector<Tensor> loss, likely;
  for (int64_t t = 0; t < batch.ids.size(1); t += kPieceTokens) {
    const int64_t count = std::min(kPieceTokens, batch.ids.size(1) - t);
    const Tensor hidden = model.hidden(batch.ids.narrow(1, t, count), &state);
    const auto scores = score_targets(model, hidden, batch.targets.narrow(1, t, count));
    loss.push_back(scores.loss);
    likely.push_back(scores.likely);
  }
  return {torch::cat(loss), torch::cat(likely)};
}

// Sets `bytes` to what is left in the state where there is one.
TokenScores score_batch(LanguageModel& model, const RecallBatch& batch, int64_t& bytes) {
  if (batch.ids.size(1) <= kPieceTokens) {
    return score_targets(model, model.hidden(batch.ids), batch.targets);
  }
  LanguageState state;
  TokenScores scores = score_in_pieces(model, batch, state);
  bytes = state_bytes(state);
  return scores;
}

std::vector<RecallDistances> quarters(std::vector<std::pair<int64_t, bool>> found) {
  std::sort(found.begin(), found.end());
  std::vector<RecallDistances> result;
  const size_t count = found.size();
  for (size_t quarter = 1, begin = 0; quarter <= 4; ++quarter) {
    size_t end = (count * quarter + 3) / 4;
    // Equal distances stay together.
    while (end < count && end > 0 && found[end].first == found[end - 1].first) ++end;
    if (end <= begin) continue;
    const auto right = std::count_if(found.begin() + int64_t(begin), found.begin() + int64_t(end),
                                     [](const auto& one) { return one.second; });
    result.push_back({found[begin].first, found[end - 1].first, int64_t(end - begin),
                      double(right) / double(end - begin)});
    begin = end;
  }
  return result;
}

int64_t batch_for(const RecallCase& size, int64_t batch) {
  if (size.length > kPieceTokens) return 1;
  return batch > 0 ? batch : std::max<int64_t>(1, kTokensAtOnce / size.length);
}

}  // namespace

void RecallTally::add(const RecallBatch& batch, const TokenScores& scores) {
  const Tensor counts = batch.targets.ne(-1).sum(1);
  int64_t at = 0;
  for (int64_t row = 0; row < counts.size(0); ++row) {
    const int64_t count = counts[row].item<int64_t>();
    bool whole = true;
    for (int64_t end = at + count; at < end; ++at) {
      const bool right = scores.likely[at].item<bool>();
      found_.emplace_back(batch.distances[size_t(at)], right);
      whole = whole && right;
    }
    exact_ += whole ? 1 : 0;
  }
  loss_ += scores.loss.to(torch::kDouble).sum().item<double>();
  scores_.samples += counts.size(0);
  scores_.tokens += at;
}

bool RecallTally::add_up(Group* group, bool stopped) {
  if (group == nullptr) return !stopped;
  std::vector<int64_t> counts{exact_, scores_.samples, scores_.tokens};
  if (!tost::add_up(group, {&loss_}, stopped)) return false;
  tost::add_up(group, counts);
  exact_ = counts[0];
  scores_.samples = counts[1];
  scores_.tokens = counts[2];
  std::vector<int64_t> found;
  for (const auto& [distance, right] : found_) found.push_back(2 * distance + (right ? 1 : 0));
  found_.clear();
  for (const int64_t one : gather_all(*group, found)) found_.emplace_back(one / 2, one % 2 == 1);
  return true;
}

RecallScores RecallTally::scores() const {
  RecallScores result = scores_;
  const auto right =
      std::count_if(found_.begin(), found_.end(), [](const auto& one) { return one.second; });
  result.accuracy = double(right) / double(std::max<int64_t>(1, result.tokens));
  result.exact = double(exact_) / double(std::max<int64_t>(1, result.samples));
  result.loss = loss_ / double(std::max<int64_t>(1, result.tokens));
  result.distances = quarters(found_);
  return result;
}

void check_recall_fits(const LanguageConfig& config, const RecallSource& source,
                       const std::vector<RecallCase>& cases) {
  if (config.auto_encoder != source.restores()) {
    fail_usage("The task ",
               config.auto_encoder ? "predicts tokens, and the model is an auto-encoder"
                                   : "needs an auto-encoder, and the model is none",
               "; the task compression alone goes with auto-encoders.");
  }
  if (source.vocab() > config.vocab) {
    fail_usage("The task has ", source.vocab(), " tokens and the model ", config.vocab,
               "; choose a vocab that the model has.");
  }
  for (const RecallCase& size : cases) {
    source.check(size);
    if (config.auto_encoder && size.length > kPieceTokens) {
      fail_usage("An auto-encoder reads at most ", kPieceTokens, " tokens, not ", size.length, ".");
    }
    if (config.positions == "none" || size.length <= config.block) continue;
    fail_usage("A length of ", size.length, " is beyond the model's ", config.block,
               " learned positions; choose shorter ones, or train a model with positions none.");
  }
}

std::optional<std::vector<RecallScores>> evaluate_recall(LanguageModel& model,
                                                         const RecallSource& source,
                                                         const std::vector<RecallCase>& cases,
                                                         const RecallEvalOptions& options) {
  if (options.samples < 1 || options.batch < 0) {
    fail_usage("There must be at least one sample, and one a batch, not ", options.samples, " and ",
               options.batch, ".");
  }
  check_recall_fits(model.config(), source, cases);
  for (const RecallCase& size : cases) {
    check_recall_memory(model.config(), size.length, batch_for(size, options.batch),
                        /*training=*/false, room_on(device_of(model)));
  }
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(model);
  const PrecisionScope precision(options.precision, device_of(model));
  std::vector<RecallScores> all;
  const int64_t total = options.samples * std::ssize(cases);
  for (const RecallCase& size : cases) {
    RecallTally tally(size);
    int64_t bytes = 0;
    double seconds = 0;
    const int64_t step = batch_for(size, options.batch);
    bool stopped = false;
    for (int64_t first = step * rank_of(options.group); first < options.samples;
         first += step * world_of(options.group)) {
      stopped = options.stop != nullptr && options.stop->load();
      if (stopped) break;
      const int64_t count = std::min(step, options.samples - first);
      const RecallBatch batch =
          read_watched(options.read_guard, [&source, size, split = options.split, first, count] {
            return make_recall_batch(source, size, split, first, count);
          });
      // Outside the clock, which is for reading alone.
      if (bytes == 0 && size.length <= kPieceTokens) {
        bytes = bytes_kept(model, batch.ids.narrow(0, 0, 1));
      }
      const auto start = std::chrono::steady_clock::now();
      tally.add(batch, score_batch(model, batch, bytes));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (options.progress) {
        options.progress(std::ssize(all) * options.samples + first + count, total);
      }
    }
    if (!tally.add_up(options.group, stopped)) return std::nullopt;
    all.push_back(tally.scores());
    all.back().state_bytes = bytes;
    all.back().seconds = seconds;
  }
  return all;
}

RecallTotals recall_totals(const std::vector<RecallScores>& scores) {
  RecallTotals totals;
  for (const RecallScores& one : scores) {
    totals.accuracy += one.accuracy / double(scores.size());
    totals.exact += one.exact / double(scores.size());
    totals.loss += one.loss / double(scores.size());
    totals.tokens += one.tokens;
  }
  return totals;
}

json to_json(const RecallScores& scores, const std::string& task) {
  json distances = json::array();
  for (const RecallDistances& d : scores.distances) {
    distances.push_back(
        {{"from", d.low}, {"to", d.high}, {"tokens", d.tokens}, {"accuracy", d.accuracy}});
  }
  json object = TOST_MEMBERS(scores, samples, tokens, accuracy, exact, loss, state_bytes);
  object["length"] = scores.size.length;
  object["distances"] = std::move(distances);
  if (recall_has_pairs(task)) object["pairs"] = scores.size.pairs;
  if (task == "needle") {
    object["depth"] = scores.size.depth < 0 ? json() : json(scores.size.depth);
  }
  return object;
}

}  // namespace tost
