// Holds the commit of the build, so that a new commit compiles only this source again.
#include "tost/cli/build_info.h"

#include "tost_commit.h"

namespace tost {

const char* build_version() {
  return TOST_VERSION;
}
const char* build_commit() {
  return TOST_COMMIT;
}
const char* build_type() {
  return TOST_BUILD_TYPE;
}

}  // namespace tost
