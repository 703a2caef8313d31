// Opens a language model of any mixer, file and device for tost generate, with torch.
#include "tost/cli/commands.h"
#include "tost/cli/generate.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/nn/module_device.h"

namespace tost {
namespace {

OpenedText open_with_torch(const TextChoice& o) {
  auto loaded = load_language_file(o.checkpoint, o.ema ? Weights::kEma : Weights::kRaw);
  choose_tokenizer({.name = o.tokenizer}, loaded);
  needed_tokenizer(loaded.info, "it cannot write text");
  const torch::Device device = device_from_name(o.device);
  if (!o.precision.empty()) {
    loaded.precision = precision_from_name(o.precision, language_precisions(device));
  }
  place_language(loaded.model, loaded.precision, device);
  const auto scope =
      std::make_shared<PrecisionScope>(scope_precision(loaded.precision, device), device);
  return {loaded.model, loaded.info, loaded.file.string(), scope};
}

}  // namespace

void add_generate_command(CLI::App& app) {
  add_generate_command(app, open_with_torch);
}

}  // namespace tost
