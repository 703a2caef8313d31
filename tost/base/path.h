// Replaces functions of std::filesystem, whose errors do not help a user. Every failure is an Error
// that names the path and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tost {

// The meaning of an errno and, if known, advice, without a full stop: "permission denied; …".
std::string system_reason(int error);

// Follows links. Whether a file or folder has this name; false for a broken link. Other failures,
// such as missing permissions or too long names, are data Errors.
bool path_exists(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
bool is_plain_file(const std::filesystem::path& path);

bool is_link(const std::filesystem::path& path);
// Whether a file, folder or link, even a broken link, has this name.
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
// Throws a usage Error if the path exists and is not an empty folder.
void check_new_folder(const std::filesystem::path& path);

// Bytes of a file.
int64_t file_bytes(const std::filesystem::path& file);

// The absolute path; throws a usage Error for the empty path.
std::filesystem::path absolute_path(const std::filesystem::path& path);
// The path with links and dots resolved in the part that exists.
std::filesystem::path canonical_path(const std::filesystem::path& path);

// The folder for temporary files, from environment variables.
std::filesystem::path temporary_folder();

}  // namespace tost
