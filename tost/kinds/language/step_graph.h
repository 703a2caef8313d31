// Decoding on a GPU by graphs: the whole step of a model, any number of texts, queued at once, with
// the state where it is.
#pragma once

#include <list>
#include <memory>

#include "tost/kinds/language/model.h"
#include "tost/ops/graphed_call.h"

namespace tost {

// Takes single tokens after the first ones of texts, of models whose state keeps its size; the rest
// is left to the modules. Results are those of the modules bit for bit. A state it has moved on
// lies in memory of the reader's for as long as somebody holds it; states may be copied, set aside
// and taken up again. There is memory for kMostStates of them: for one more, that of the state used
// least recently which nobody holds is freed. Where all are held, and once a capture has failed,
// the modules take over, or, where graphs are demanded, a usage Error says so. Not thread-safe; all
// calls agree in inference mode.
class LanguageGraphs : public LanguageReader {
 public:
  // The model lies on a device of which graphs_run_on() holds, must not change while this lives,
  // and outlives it. bf16: steps come under autocast; the matrices are rounded here, once.
  LanguageGraphs(LanguageModel& model, bool bf16);

  torch::Tensor extend(const torch::Tensor& ids, LanguageState& state) override;
  torch::Tensor hidden(const torch::Tensor& /*ids*/, LanguageState* /*state*/) override {
    return {};
  }
  torch::Tensor logits(const torch::Tensor& /*hidden*/) override { return {}; }

  // For `graphs on`, see graphs_wanted().
  void demand_graphs() { demanded_ = true; }

  // Steps that were replayed.
  int64_t replays() const { return replays_; }
  // False once a capture has failed.
  bool by_graphs() const { return possible_; }

  // States with memory of the reader's, each of them a graph.
  static constexpr size_t kMostStates = 8;

 private:
  struct Resident;
  Resident* resident_for(const LanguageState& state);
  Resident* place_for(const LanguageState& state);
  Resident* new_resident(const LanguageState& state);
  void step(Resident& resident, const Tensors& ids, Tensors& logits);

  LanguageModel& model_;
  std::list<std::unique_ptr<Resident>> residents_;  // those used last come first
  int64_t replays_ = 0;
  bool possible_ = true, demanded_ = false;
};

// Makes graphs the model's reader. Null, and nothing is changed, where its state grows.
std::shared_ptr<LanguageGraphs> read_by_graphs(const std::shared_ptr<LanguageModel>& model,
                                               bool bf16);

}  // namespace tost
