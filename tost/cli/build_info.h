// The commit and the compiler of this program.
#pragma once

namespace tost {

const char* build_version();
const char* build_commit();  // of the source, shortened; ends with "+" if files were changed
const char* build_type();    // such as Release

}  // namespace tost
