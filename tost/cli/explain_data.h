// Which data tost explain looks at, whatever the kind of model.
#pragma once

#include <functional>
#include <string>

#include "tost/base/error.h"
#include "tost/cli/explain_command.h"

namespace tost {

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
