// The style sheet of a page.
#pragma once

#include <string>

namespace tost {

std::string page_style();

}  // namespace tost
