// A report on an image classifier as a page.
#pragma once

#include <string>

#include "tost/kinds/vision/explain_report.h"
#include "tost/report/page.h"

namespace tost {

// `title` "": from the model's name. However many pictures and layers there are, maps laid over
// pictures take at most about 12 MB of the page: they shrink, and then only some layers have them,
// which the page says.
Page vision_page(const VisionReport& report, const std::string& title = "");

}  // namespace tost
