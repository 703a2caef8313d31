// Training of classifiers of sequences as a kind of run.
#include "tost/kinds/sequence/run.h"

#include <algorithm>

#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/task.h"
#include "tost/store/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// By the checkpoint that was best on the validation split, or the last one where there is no such
// split or it is the one that is scored.
std::optional<RunScores> score_sequences(const fs::path& run, const json& rule,
                                         const std::atomic<bool>* stop) {
  const SequenceTrainConfig config =
      make_config(sequence_train_form(), read_config_file(run / kConfigFile));
  const SequenceSpec spec = sequence_spec(config);
  const std::string split = rule.at("split").get<std::string>();
  const auto splits = sequence_dataset_splits(spec);
  const bool selected = split != "validation" &&
                        std::find(splits.begin(), splits.end(), "validation") != splits.end();
  // Of a run folder the best checkpoint is read.
  const LoadedSequence loaded = load_sequence_file(
      selected ? run : final_checkpoint(run), config.evaluate_ema ? Weights::kEma : Weights::kRaw);
  SequenceEvalOptions options;
  options.batch = config.eval_batch;
  options.precision = config.precision;
  options.stop = stop;
  const auto dataset = open_sequence_dataset(spec, split);
  const auto result = evaluate(*loaded.model, *dataset, options);
  if (!result) return std::nullopt;
  return RunScores{{{"top1", result->top1}, {"loss", result->loss}}, {}};
}

}  // namespace

RunKind sequence_run_kind() {
  RunKind kind = make_run_kind<SequenceTask>("sequence", "sequence model", sequence_train_form(),
                                             sequence_preset_names(), sequence_info_from_json);
  kind.metric = "top1";
  kind.score = score_sequences;
  return kind;
}

}  // namespace tost
