#include "tost/kinds/sequence/predict.h"

#include "tost/base/error.h"
#include "tost/data/listops.h"
#include "tost/kinds/sequence/eval.h"

namespace tost {
namespace {

using torch::Tensor;

// Codes of bytes and symbols begin at 0, tokens at 1.
std::vector<int32_t> tokens_of(const std::string& codes) {
  std::vector<int32_t> tokens;
  for (const char c : codes) tokens.push_back(int32_t(static_cast<unsigned char>(c)) + 1);
  return tokens;
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

std::vector<int32_t> encode_text(const SequenceInfo& info, const std::string& text) {
  if (text.empty()) fail_usage("The text is empty; give at least one character.");
  std::vector<int32_t> tokens;
  if (info.coding.kind == "listops") {
    std::string error;
    tokens = tokens_of(parse_listops(text, error));
    if (!error.empty()) fail_usage("The expression ", error, ".");
  } else if (info.coding.kind == "bytes") {
    tokens = tokens_of(text);
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
