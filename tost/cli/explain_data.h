// Which data tost explain looks at, whatever the kind of model.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/cli/explain_command.h"
#include "tost/eval/run_layout.h"
#include "tost/train/config_form.h"

namespace tost {

// The configuration of the run that a model file lies in (RUN/checkpoints/STEP/FILE), if it does.
template <class Config>
std::optional<Config> run_config(const ConfigForm<Config>& form,
                                 const std::filesystem::path& model_file) {
  const auto checkpoints = absolute_path(model_file).parent_path().parent_path();
  if (checkpoints.filename() != kCheckpointFolder) return std::nullopt;
  const auto file = checkpoints.parent_path() / kConfigFile;
  if (!is_plain_file(file)) return std::nullopt;
  nlohmann::json values = read_config_file(file);
  values.erase("from");  // need not be there any more
  return make_config(form, values, cat("'", file.string(), "'"));
}

// Opens the data with `open` where they are `known`: given, or named by the run. Returns why there
// are none, a sentence without its capital; "" where they are open. Data that was not asked for may
// be gone.
inline std::string open_known_data(const ExplainCommand& command, bool known,
                                   const std::function<void()>& open) {
  if (!known) {
    return "the model file is not in a run folder that names its data; give it with --data.";
  }
  try {
    open();
  } catch (const Error& error) {
    if (!command.data.path.empty() || !command.split.empty()) throw;
    return cat("the run's data cannot be opened any more (", error.what(),
               ") Give it with --data.");
  }
  return "";
}

}  // namespace tost
