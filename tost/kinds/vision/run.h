// Training runs of image classifiers.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

RunKind vision_run_kind();

}  // namespace tost
