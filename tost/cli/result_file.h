// Files that flags name for results.
#pragma once

#include <string>
#include <vector>

namespace tost {

// Before long work, not after it; an empty path is none. They throw usage Errors that name the
// flag: for a folder, and for a file within a folder that does not exist.
void check_output_file(const char* flag, const std::string& path);
// The same, and for another ending than those that tell what is written.
void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings);

}  // namespace tost
