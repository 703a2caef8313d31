#include "tost/kinds/sequence/eval.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tost/base/error.h"
#include "tost/data/listops.h"
#include "tost/data/sequence_text.h"
#include "tost/io/parse_json.h"
#include "tost/nn/module_device.h"

namespace tost {

namespace {

using Clock = std::chrono::steady_clock;
using torch::Tensor;

std::vector<int64_t> by_length(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[size_t(a)] < lengths[size_t(b)]; });
  return order;
}

// Cuts results into quarters; Computes accuracy by quarters of length; `right` and `lengths` are
// sorted by length.
std::vector<LengthQuarter> quarters_of(const std::vector<int64_t>& right,
                                       const std::vector<int64_t>& lengths) {
  constexpr size_t kQuarters = 4;
  std::vector<LengthQuarter> quarters;
  for (size_t q = 1, begin = 0; q <= kQuarters; ++q) {
    size_t end = q * right.size() / kQuarters;
    // Equal lengths stay together.
    while (end > 0 && end < right.size() && lengths[end] == lengths[end - 1]) ++end;
    if (end <= begin) continue;
    const auto hits = std::count(right.begin() + int64_t(begin), right.begin() + int64_t(end), 1);
    quarters.push_back({lengths[begin], lengths[end - 1], int64_t(end - begin),
                        double(hits) / double(end - begin)});
    begin = end;
  }
  return quarters;
}

Tensor ids_of(const SequenceInfo& info, const std::string& text) {
  return torch::tensor(encode_text(info, text), torch::kLong).unsqueeze(0);
}

SequenceBatch batch_of(const SequenceInfo& info, const SequenceText& text) {
  SequenceBatch batch;
  batch.ids = ids_of(info, text.text);
  if (info.config.pairs) batch.second = ids_of(info, text.second);
  return batch;
}

void check(const SequenceInfo& info, const SequenceText& text) {
  if (info.config.pairs == !text.second.empty()) return;
  fail_usage(info.config.pairs ? "The model compares two documents and was given one."
                               : "The model reads one document and was given two.");
}

}  // namespace

torch::Tensor forward_batch(SequenceClassifier& model, const SequenceBatch& batch) {
  if (!batch.second.defined()) return model.forward({batch.ids, batch.lengths});
  return model.forward({batch.ids, batch.lengths}, {batch.second, batch.second_lengths});
}

torch::Tensor sequence_logits(SequenceClassifier& model, const SequenceBatch& batch,
                              Precision precision) {
  const torch::InferenceMode no_grad;
  const PrecisionScope scope(precision, device_of(model));
  return forward_batch(model, batch).to(torch::kCPU);
}

std::optional<SequenceEvalResult> evaluate(SequenceClassifier& model,
                                           const SequenceDataset& dataset,
                                           const SequenceEvalOptions& options) {
  if (options.batch < 1) fail_usage("The batch is ", options.batch, "; at least 1 is needed.");
  if (dataset.size() == 0) fail_usage("There is no sequence to score.");
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const auto start = Clock::now();
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < dataset.size(); ++i) lengths.push_back(dataset.length(i));
  const std::vector<int64_t> order = by_length(lengths);
  std::sort(lengths.begin(), lengths.end());
  ClassScores scores(model.config().classes);
  std::vector<int64_t> right(order.size());  // 1 for a hit
  bool stopped = false;
  const size_t apart = size_t(options.batch) * size_t(world_of(options.group));
  for (size_t begin = size_t(options.batch) * size_t(rank_of(options.group));
       begin < order.size() && !stopped; begin += apart) {
    const size_t end = std::min(order.size(), begin + size_t(options.batch));
    const std::vector<int64_t> rows(order.begin() + int64_t(begin), order.begin() + int64_t(end));
    const SequenceBatch batch = read_watched(
        options.read_guard, [&dataset, rows] { return make_sequence_batch(dataset, rows); });
    const torch::Tensor logits = sequence_logits(model, batch, options.precision);
    add_scores(scores, logits, batch.labels);
    const torch::Tensor hits = logits.argmax(1).eq(batch.labels);
    for (int64_t i = 0; i < hits.size(0); ++i) right[begin + size_t(i)] = hits[i].item<bool>();
    if (options.progress) options.progress(int64_t(end), dataset.size());
    stopped = options.stop != nullptr && options.stop->load();
  }
  if (!add_up(options.group, scores, stopped)) return std::nullopt;
  add_up(options.group, right);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return SequenceEvalResult{scores, seconds.count(), quarters_of(right, lengths)};
}

nlohmann::json to_json(const SequenceEvalResult& r) {
  return {{"top1", r.scores.top1()},
          {"loss", r.scores.loss()},
          {"sequences", r.scores.count},
          {"seconds", r.seconds}};
}

std::vector<int32_t> encode_text(const SequenceInfo& info, const std::string& text) {
  if (text.empty()) fail_usage("The text is empty; give at least one character.");
  std::vector<int32_t> tokens;
  if (info.coding.kind == "listops") {
    std::string error;
    tokens = tokens_of_codes(parse_listops(text, error));
    if (!error.empty()) fail_usage("The expression ", error, ".");
  } else if (info.coding.kind == "bytes") {
    tokens = tokens_of_codes(text);
  } else {
    fail_usage("The model reads ", info.coding.kind,
               ", not text; score it on a data set with tost eval.");
  }
  if (info.cut > 0 && int64_t(tokens.size()) > info.cut) tokens.resize(size_t(info.cut));
  return tokens;
}

std::vector<Prediction> predict_texts(SequenceClassifier& model, const SequenceInfo& info,
                                      const std::vector<SequenceText>& texts,
                                      const PredictOptions& options) {
  if (texts.empty()) fail_usage("No text was given to predict.");
  const torch::NoGradGuard no_grad;
  std::vector<Prediction> predictions;
  for (const SequenceText& text : texts) {
    check(info, text);
    const Tensor logits = sequence_logits(model, batch_of(info, text), options.precision)[0];
    const Tensor probabilities = logits.to(torch::kDouble).softmax(0);
    predictions.push_back({text.text, rank_classes(probabilities, info.classes, options.top_k)});
  }
  return predictions;
}

}  // namespace tost
