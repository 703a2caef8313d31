// Language models as a row of the table of kinds.
#pragma once

#include "tost/kinds/kind.h"

namespace tost {

Kind language_kind();

}  // namespace tost
