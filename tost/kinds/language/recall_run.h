// Training runs of language models on recall tasks.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

RunKind recall_run_kind();

}  // namespace tost
