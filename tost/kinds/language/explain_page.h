// A report on a language model as a page.
#pragma once

#include "tost/kinds/language/explain_report.h"
#include "tost/report/page.h"

namespace tost {

// Bounded: passages are those of the report, layers the chosen ones, heads at most 8 in full.
Page text_page(const TextReport& report, const std::string& title);

}  // namespace tost
