#include "tost/kinds/language/place.h"

#include "tost/base/error.h"
#include "tost/kinds/language/engine.h"

namespace tost {

std::shared_ptr<LanguageGraphs> place_language(const std::shared_ptr<LanguageModel>& model,
                                               Precision precision, torch::Device device,
                                               const std::string& graphs) {
  const bool by_graphs = graphs_wanted(graphs, device);
  if (device.is_cpu()) {
    if (!model->config().auto_encoder || precision != Precision::kFp32) {
      read_by_engine(model, precision);
    }
    return nullptr;
  }
  if (!facts_of(precision).modules) {
    fail_usage(precision,
               " needs the inference engine, which runs on the CPU; use fp32 or bf16 on ",
               device.str(), ".");
  }
  model->to(device);
  auto reader = by_graphs ? read_by_graphs(model, precision == Precision::kBf16) : nullptr;
  if (graphs != "on") return reader;
  if (reader == nullptr) {
    fail_usage("graphs on needs a model whose state keeps its size, and mixer softmax of model '",
               model->config().name, "' remembers every token; use auto or off.");
  }
  reader->demand_graphs();
  return reader;
}

Precisions language_precisions(torch::Device device) {
  return device.is_cpu() ? all_precisions() : classifier_precisions(/*engine=*/false);
}

Precision scope_precision(Precision precision, torch::Device device) {
  return device.is_cpu() ? Precision::kFp32 : precision;
}

}  // namespace tost
