// Pictures (JPEG and PNG, decoded on demand) in one folder for each class, split/class/picture.jpg.
#pragma once

#include <filesystem>
#include <map>

#include "tost/io/dataset.h"

namespace tost {

class FolderDataset : public ImageDataset {
 public:
  // `directory` holds the class folders, each of which must be in `classes`. If `classes` is empty,
  // the classes are all folders in sorted order. Reads pictures from nested folders, too, in sorted
  // order: files named .jpg, .jpeg or .png, and files that begin like a picture. Ignores other
  // files, and names that start with a dot. Throws a data Error for a missing class folder, a class
  // folder without pictures, and a class that is not in `classes`.
  FolderDataset(const std::string& directory, std::vector<std::string> classes);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return files_[static_cast<size_t>(i)].label; }
  Image image(int64_t i) const override { return read_image(name(i)); }
  std::string name(int64_t i) const override;
  std::string format() const override { return "folder"; }
  int64_t channels() const override { return 3; }

 private:
  struct File {
    std::string path;  // below directory_
    int64_t label;
  };
  std::string directory_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

// The sorted names of the folders in `directory` that do not start with a dot.
std::vector<std::string> class_folders(const std::string& directory);

// The folder of a split in `directory` (train, validation or val, test); "" if there is none.
std::string split_folder(const std::string& directory, const std::string& split);

// The folders of the splits, if the directory has train/ or only splits with class folders. Other
// directories have none, because a class may be called "test".
std::map<std::string, std::string> split_folders(const std::string& directory);

// Files that operating systems leave in folders: names that start with a dot, Thumbs.db,
// desktop.ini.
bool is_system_file(const std::filesystem::path& file);

// Whether most of the first files in the class folders of `directory` are not pictures; a few other
// files are usual.
bool holds_texts(const std::string& directory);

}  // namespace tost
