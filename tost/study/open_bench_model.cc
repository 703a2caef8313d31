#include "tost/study/open_bench_model.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/kinds/kinds.h"
#include "tost/nn/preset_names.h"

namespace tost {
namespace {

std::unique_ptr<BenchModel> open_file(const BenchModelSource& source) {
  if (!source.mixer.empty()) {
    fail_usage("'", source.name, "' is a trained model with the mixer it was trained with; leave ",
               "out --mixer, or give a preset.");
  }
  return kind_named(model_kind(source.name)).open_bench(source, true);
}

[[noreturn]] void fail_unknown(const std::string& name) {
  const std::string hint = did_you_mean(name, preset_names());
  fail_usage("'", name, "' is neither a preset nor a file.",
             hint.empty() ? " `tost info --models` lists the presets." : hint);
}

}  // namespace

std::unique_ptr<BenchModel> open_bench_model(const BenchModelSource& source) {
  torch::manual_seed(0);
  for (const Kind& kind : kinds()) {
    const auto names = kind.presets();
    if (std::find(names.begin(), names.end(), source.name) == names.end()) continue;
    return kind.open_bench(source, false);
  }
  if (path_exists(source.name)) return open_file(source);
  fail_unknown(source.name);
}

}  // namespace tost
