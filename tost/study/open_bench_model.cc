#include "tost/study/open_bench_model.h"

#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/kinds/language/bench.h"
#include "tost/kinds/sequence/bench.h"
#include "tost/kinds/vision/bench.h"
#include "tost/kinds/vision/presets.h"
#include "tost/nn/preset_names.h"
#include "tost/store/weights_file.h"

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
  const std::string hint = did_you_mean(name, preset_names());
  fail_usage("'", name, "' is neither a preset nor a file.",
             hint.empty() ? " `tost info --models` lists the presets." : hint);
}

}  // namespace

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
