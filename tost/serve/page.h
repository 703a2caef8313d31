// The page for browsers: web/serve.html as one file that loads no other files.
#pragma once

#include "tost/serve/http.h"

namespace tost {

HttpResponse start_page();

}  // namespace tost
