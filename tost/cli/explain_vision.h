// The part of tost explain that concerns image models.
#pragma once

#include "tost/cli/explain_command.h"

namespace tost {

// Explains the image classifier, writes the report and prints where it is.
void run_vision_explain(ExplainCommand& command);

}  // namespace tost
