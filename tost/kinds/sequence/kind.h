// Classifiers of sequences as a row of the table of kinds.
#pragma once

#include "tost/kinds/kind.h"

namespace tost {

Kind sequence_kind();

}  // namespace tost
