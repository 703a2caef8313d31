// The page that a browser shows: three files compiled in, which load nothing from elsewhere.
#pragma once

#include <string>

#include "tost/serve/http.h"

namespace tost {

// Of "/", "/page.css" and "/page.js".
HttpResponse page_file(const std::string& path);

}  // namespace tost
