// Files that flags name for results.
#pragma once

#include <string>
#include <vector>

#include "tost/report/drawing.h"

namespace tost {

// Before long work, not after it; an empty path is none. They throw usage Errors that name the
// flag: for a folder, and for a file within a folder that does not exist.
void check_output_file(const char* flag, const std::string& path);
// The same, and for another ending than those that tell what is written.
void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings);
// The ending is .svg or .png.
void check_plot_file(const char* flag, const std::string& path);

// In the format its ending says.
void write_plot_file(const std::string& path, const Drawing& plot);

}  // namespace tost
