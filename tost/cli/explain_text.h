// The part of tost explain that concerns language models.
#pragma once

#include <vector>

#include "tost/cli/explain_command.h"

namespace tost {

// Adds the flags that go with language models; they are returned for the check of the kind.
std::vector<CLI::Option*> add_text_explain_options(CLI::App& app, ExplainCommand& command);

// Explains the language model, writes the report and prints where it is. `app` tells which flags
// were given.
void run_text_explain(const CLI::App& app, ExplainCommand& command);

}  // namespace tost
