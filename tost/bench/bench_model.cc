#include "tost/bench/bench_model.h"

#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/bench/bench_model_parts.h"
#include "tost/eval/language_file.h"
#include "tost/models/preset_names.h"
#include "tost/models/sequence_classifier.h"
#include "tost/models/vision_presets.h"

namespace tost {
namespace {

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::unique_ptr<BenchModel> open_file(const BenchModelSource& source) {
  if (!source.mixer.empty()) {
    fail_usage("'", source.name, "' is a trained model with the mixer it was trained with; leave ",
               "out --mixer, or give a preset.");
  }
  const std::string kind = model_kind(source.name);
  if (kind == "language") return open_bench_language(source, true);
  if (kind == "sequence") return open_bench_sequence(source, true);
  return open_bench_vision(source, true);
}

[[noreturn]] void fail_unknown(const std::string& name) {
  const std::string hint = did_you_mean(name, all_preset_names());
  fail_usage("'", name, "' is neither a preset nor a file.",
             hint.empty() ? " `tost info --models` lists the presets." : hint);
}

}  // namespace

void show_every_layer(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (ends_with(name, "gamma1") || ends_with(name, "gamma2")) item.value().fill_(1);
    if (ends_with(name, ".bias")) item.value().normal_(0, 0.02);
  }
}

uint64_t input_seed(const BenchTask& task) {
  return uint64_t(task.batch) * 1'000'003 + uint64_t(task.size);
}

void fail_precision(const char* kind, bool engine, const std::string& precision) {
  fail_usage(precision, engine ? " is not a precision of the " : " needs the engine for ", kind,
             engine ? " engine." : " models.");
}

std::unique_ptr<BenchModel> open_bench_model(const BenchModelSource& source) {
  torch::manual_seed(0);
  if (holds(vision_preset_names(), source.name)) return open_bench_vision(source, false);
  if (holds(language_preset_names(), source.name) || holds(recall_preset_names(), source.name)) {
    return open_bench_language(source, false);
  }
  if (holds(sequence_preset_names(), source.name)) return open_bench_sequence(source, false);
  if (path_exists(source.name)) return open_file(source);
  fail_unknown(source.name);
}

}  // namespace tost
