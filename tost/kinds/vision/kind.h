// Image classifiers as a row of the table of kinds.
#pragma once

#include "tost/kinds/kind.h"

namespace tost {

Kind vision_kind();

}  // namespace tost
