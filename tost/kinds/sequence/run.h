// Training runs of classifiers of sequences.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

RunKind sequence_run_kind();

}  // namespace tost
