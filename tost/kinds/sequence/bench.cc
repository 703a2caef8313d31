// Measures classifiers of sequences for `tost bench model`.
#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/bench/product_floor.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/arrays.h"
#include "tost/ops/device.h"

namespace tost {
namespace {

class BenchSequence : public BenchModel {
 public:
  explicit BenchSequence(std::shared_ptr<SequenceClassifier> model)
      : BenchModel({"sequence", "sequences", model->config().mixer, model->config().max_length}),
        model_(std::move(model)) {
    model_->eval();
  }

  Array draw_input(const BenchTask& task) const override {
    return random_ids(task, task.size, 1, model_->config().vocab);
  }

  BenchRunner make_runner(const BenchTask& task, const Array& input, Precision precision,
                          bool engine) override {
    if (engine) fail_usage("Sequence models have no engine; they run as modules.");
    if (!facts_of(precision).modules) {
      fail_usage(precision, " is not a precision of sequence models; use fp32 or bf16.");
    }
    BenchRunner runner;
    runner.weight_bytes = 4 * parameter_count(*model_);  // rounded at every use
    const torch::Device device = device_from_name(task.device);
    model_->to(device);
    SequenceBatch batch;
    batch.ids = tensor_of(input).to(device);
    if (model_->config().pairs) batch.second = batch.ids;
    runner.run = [model = model_, precision, batch] {
      return array_of(sequence_logits(*model, batch, precision));
    };
    return runner;
  }

  std::vector<Product> products(const BenchTask& task) const override {
    return sequence_products(*model_, task.batch, task.size);
  }

 private:
  std::shared_ptr<SequenceClassifier> model_;
};

}  // namespace

std::vector<Product> sequence_products(const SequenceClassifier& model, int64_t batch,
                                       int64_t tokens) {
  std::vector<Product> products;
  const int64_t length = tokens + (model.config().pool == "class" ? 1 : 0);
  const int64_t documents = model.config().pairs ? 2 : 1;
  add_linears(
      model,
      [&](const std::string& name) {
        return starts_with(name, "blocks.") ? batch * length * documents : batch;
      },
      products);
  return products;
}

std::unique_ptr<BenchModel> open_bench_sequence(const BenchModelSource& source, bool file) {
  if (file) return std::make_unique<BenchSequence>(load_sequence_file(source.name).model);
  SequenceConfig config = sequence_preset(source.name);
  if (!source.mixer.empty()) config.mixer = source.mixer;
  config.dropout = 0;
  auto model = make_sequence_classifier(config);
  show_every_layer(*model);
  return std::make_unique<BenchSequence>(std::move(model));
}

}  // namespace tost
