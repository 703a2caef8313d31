// Questions about paths, in place of std::filesystem's functions, whose exceptions and ignored
// error codes no user can act on. Every failure is an Error that names the path and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tost {

// Why the system refused, by errno, and what to do about it where that is known: "permission
// denied; …". Without a full stop.
std::string system_reason(int error);

// Links are followed. False where nothing has this name or a link leads nowhere; all other failures
// (permissions, links in a circle, names too long) are data Errors.
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
bool is_plain_file(const std::filesystem::path& path);

bool is_link(const std::filesystem::path& path);
// Something is there, perhaps a link that leads nowhere: nothing can be made under this name.
bool is_taken(const std::filesystem::path& path);

struct FolderEntry {
  std::filesystem::path path;
  bool folder = false;  // links are followed; one that leads nowhere is neither
  bool file = false;    // a plain one
  bool link = false;
};

// The entries of a folder, ordered by name.
std::vector<FolderEntry> folder_entries(const std::filesystem::path& folder);
bool is_empty_folder(const std::filesystem::path& folder);
// A usage Error unless nothing, or an empty folder, has this name.
void check_new_folder(const std::filesystem::path& path);

// Bytes of a file.
int64_t file_bytes(const std::filesystem::path& file);

// From the root on; a usage Error for the empty path.
std::filesystem::path absolute_path(const std::filesystem::path& path);
// Without links and dots, as far as it exists.
std::filesystem::path canonical_path(const std::filesystem::path& path);

// For temporary files, by the environment.
std::filesystem::path temporary_folder();

}  // namespace tost
