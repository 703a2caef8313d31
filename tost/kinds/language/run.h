// Training runs of language models.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

RunKind language_run_kind();

}  // namespace tost
