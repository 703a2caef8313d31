// Functions of routes whose table is in another source file.
#pragma once

#include <vector>

#include "tost/serve/app.h"

namespace tost {

// To language_routes().
void add_completion_routes(std::vector<Route>& routes);
void add_chat_routes(std::vector<Route>& routes);
// To session_routes().
void add_response_routes(std::vector<Route>& routes);

}  // namespace tost
