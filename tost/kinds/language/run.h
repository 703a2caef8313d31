// Training runs of language models, on texts and on tasks of recall.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

RunKind language_run_kind();
RunKind recall_run_kind();

}  // namespace tost
