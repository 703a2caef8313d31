#include "tost/cli/result_file.h"

#include <filesystem>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/text.h"

namespace tost {

void check_output_file(const char* flag, const std::string& path) {
  if (path.empty()) return;
  const auto folder = std::filesystem::path(path).parent_path();
  if (is_folder(path)) {
    fail_usage("--", flag, " ", path, " is a folder; name a file.");
  }
  if (folder.empty() || is_folder(folder)) return;
  fail_usage("--", flag, " ", path, ": there is no folder ", folder.string(), "; make it first.");
}

void check_output_ending(const char* flag, const std::string& path,
                         const std::vector<std::string>& endings) {
  check_output_file(flag, path);
  if (path.empty()) return;
  for (const std::string& ending : endings) {
    if (ends_with(path, ending)) return;
  }
  fail_usage("--", flag, " is '", path, "'; it must end in ", join(endings, " or "), ".");
}

}  // namespace tost
