#include "tost/kinds/language/answer_eval.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/comm/sums.h"
#include "tost/io/parse_json.h"
#include "tost/nn/module_device.h"

namespace tost {

namespace {

using nlohmann::json;
using torch::Tensor;

constexpr int64_t kTokensAtOnce = 8192;
constexpr int64_t kPiece = 2048;  // of a sample that is read with a state

// Scores a batch, or a long sample piece by piece, and then sets `bytes` to the size of the state.
TokenScores score_batch(LanguageModel& model, const TokenTaskBatch& batch, int64_t& bytes) {
  const int64_t samples = batch.ids.size(0), tokens = batch.ids.size(1);
  const auto* ids = batch.ids.const_data_ptr<int64_t>();
  const auto* targets = batch.targets.const_data_ptr<int64_t>();
  if (tokens <= kPiece) return model.score(ids, targets, samples, tokens, nullptr);
  TokenScores scores;
  LanguageState state;
  for (int64_t t = 0; t < tokens; t += kPiece) {
    const auto [loss, likely] =
        model.score(ids + t, targets + t, 1, std::min(kPiece, tokens - t), &state);
    scores.loss.insert(scores.loss.end(), loss.begin(), loss.end());
    scores.likely.insert(scores.likely.end(), likely.begin(), likely.end());
  }
  bytes = state_bytes(state);
  return scores;
}

int64_t batch_for(int64_t length, int64_t batch) {
  if (length > kPiece) return 1;
  return batch > 0 ? batch : std::max<int64_t>(1, kTokensAtOnce / length);
}

int64_t samples_of(const TokenTaskData& data, int64_t group, const AnswerEvalOptions& options) {
  const int64_t all = data.samples(group);
  return options.samples > 0 ? std::min(options.samples, all) : all;
}

constexpr double kFloatBytes = 4;
constexpr double kIdBytes = 16;  // a token and its target

// Uses double, because a product of hostile sizes must not overflow.
double cache_bytes(const LanguageConfig& c, double tokens) {
  const double window = double(c.options.window);
  const double seen = window > 0 ? std::min(window, tokens) : tokens;
  double numbers = 0;
  for (int64_t i = 0; i < c.depth; ++i) {
    if (mixer_of_block(c, i) == "softmax") numbers += 2 * double(c.dim) * seen;
  }
  return kFloatBytes * numbers;
}

// The bytes that training saves for a token: inputs of both norms, outputs of both branches, the
// mixer's projections, input and output of the activation.
double saved_for_backward(const LanguageConfig& c) {
  const double dim = double(c.dim);
  return kFloatBytes * double(c.depth) * (8 * dim + 2 * c.mlp_ratio * dim);
}

}  // namespace

void AnswerTally::add(const Tensor& targets, const TokenScores& scores) {
  const auto rows = targets.accessor<int64_t, 2>();
  size_t at = 0;
  for (int64_t row = 0; row < rows.size(0); ++row) {
    bool exact = true;
    for (int64_t t = 0; t < rows.size(1); ++t) {
      if (rows[row][t] == -1) continue;
      exact = exact && scores.likely[at];
      right_ += scores.likely[at];
      loss_ += scores.loss[at++];
    }
    exact_ += exact;
  }
  samples_ += rows.size(0);
  tokens_ += int64_t(at);
}

bool AnswerTally::add_up(Group* group, bool stopped) {
  return tost::add_up(group, {&loss_}, {&samples_, &tokens_, &exact_, &right_}, stopped);
}

AnswerScores AnswerTally::scores() const {
  AnswerScores result;
  const double samples = double(std::max<int64_t>(1, samples_)),
               tokens = double(std::max<int64_t>(1, tokens_));
  result.samples = samples_;
  result.tokens = tokens_;
  result.accuracy = double(right_) / tokens;
  result.exact = double(exact_) / samples;
  result.loss = loss_ / tokens;
  return result;
}

void check_answers_fit(const LanguageConfig& config, const TokenTaskData& data) {
  if (config.auto_encoder != data.restores()) {
    fail_usage("The task ",
               config.auto_encoder ? "predicts tokens, and the model is an auto-encoder"
                                   : "needs an auto-encoder, and the model is none",
               "; tasks that restore tokens (compression) alone go with auto-encoders.");
  }
  if (data.vocabulary() > config.vocab) {
    fail_usage("The task has ", data.vocabulary(), " tokens and the model ", config.vocab,
               "; make the task with a vocabulary that the model has.");
  }
  for (int64_t group = 0; group < data.groups(); ++group) {
    const int64_t length = data.length(group);
    if (config.auto_encoder && length > kPiece) {
      fail_usage("An auto-encoder reads at most ", kPiece, " tokens, not ", length, ".");
    }
    if (config.positions == "none" || length <= config.block) continue;
    fail_usage("A length of ", length, " is beyond the model's ", config.block,
               " learned positions; choose shorter ones, or train a model with positions none.");
  }
}

std::optional<std::vector<AnswerScores>> evaluate_answers(LanguageModel& model,
                                                          const TokenTaskData& data,
                                                          const AnswerEvalOptions& options) {
  if (options.samples < 0 || options.batch < 0) {
    fail_usage("There must be at least one sample, and one a batch, not ", options.samples, " and ",
               options.batch, ".");
  }
  check_answers_fit(model.config(), data);
  int64_t total = 0;
  for (int64_t group = 0; group < data.groups(); ++group) {
    total += samples_of(data, group, options);
    check_answer_memory(model.config(), data.length(group),
                        batch_for(data.length(group), options.batch), /*training=*/false,
                        room_on(device_of(model)));
  }
  const torch::InferenceMode no_grad;
  const EvaluationMode mode(model);
  const PrecisionScope precision(options.precision, device_of(model));
  std::vector<AnswerScores> all;
  int64_t before = 0;
  const auto shared = std::make_shared<const TokenTaskData>(data);  // outlives an aborted reading
  for (int64_t group = 0; group < data.groups(); ++group) {
    AnswerTally tally;
    int64_t bytes = 0;
    double seconds = 0;
    const int64_t samples = samples_of(data, group, options);
    const int64_t step = batch_for(data.length(group), options.batch);
    bool stopped = false;
    for (int64_t first = step * rank_of(options.group); first < samples;
         first += step * world_of(options.group)) {
      stopped = options.stopped();
      if (stopped) break;
      std::vector<int64_t> chosen(size_t(std::min(step, samples - first)));
      std::iota(chosen.begin(), chosen.end(), first);
      const TokenTaskBatch batch = read_watched(
          options.read_guard, [shared, group, chosen] { return shared->batch(group, chosen); });
      // Measures the state after the clock has stopped, because the time covers reading only.
      if (bytes == 0 && data.length(group) <= kPiece) {
        bytes = context_bytes(model, batch.ids.narrow(0, 0, 1));
      }
      const auto start = std::chrono::steady_clock::now();
      tally.add(batch.targets, score_batch(model, batch, bytes));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (options.progress) options.progress(before + first + std::ssize(chosen), total);
    }
    if (!tally.add_up(options.group, stopped)) return std::nullopt;
    all.push_back(tally.scores());
    all.back().group = data.name(group);
    all.back().length = data.length(group);
    all.back().state_bytes = bytes;
    all.back().seconds = seconds;
    before += samples;
  }
  return all;
}

json to_json(const std::vector<AnswerScores>& scores) {
  double accuracy = 0, exact = 0, loss = 0;
  int64_t tokens = 0;
  json groups = json::array();
  for (const AnswerScores& one : scores) {
    accuracy += one.accuracy / double(scores.size());
    exact += one.exact / double(scores.size());
    loss += one.loss / double(scores.size());
    tokens += one.tokens;
    groups.push_back(
        TOST_MEMBERS(one, group, length, samples, tokens, accuracy, exact, loss, state_bytes));
  }
  return {{"accuracy", accuracy},
          {"exact", exact},
          {"loss", loss},
          {"tokens", tokens},
          {"groups", std::move(groups)}};
}

void check_answer_memory(const LanguageConfig& config, int64_t length, int64_t samples,
                         bool training, int64_t available) {
  const double tokens = double(length), rows = double(samples);
  double needed = rows * tokens * kIdBytes;
  needed +=
      training ? rows * tokens * saved_for_backward(config) : rows * cache_bytes(config, tokens);
  if (available <= 0 || needed <= double(available)) return;
  const std::string bytes = needed < 9e18 ? human_bytes(int64_t(needed)) : "more than 8 EiB";
  fail_usage(training ? "Training on " : "Reading ", samples, " samples of ", human_number(length),
             " tokens at a time takes at least ", bytes, " of memory and the machine has ",
             human_bytes(available), " free; choose shorter lengths",
             training || samples > 1 ? ", a smaller batch" : "", " or a smaller model.");
}

}  // namespace tost
