// Sets of Pathfinder pictures (arXiv 1805.08315): the folders of the Long Range Arena's release,
// and pairs of idx files. Class 0 is "separate", 1 "connected". Free of torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tost/data/dataset.h"

namespace tost {

const std::vector<std::string>& pathfinder_classes();

// Whether `folder` has the release's layout: metadata/N.npy next to imgs/.
bool is_pathfinder_archive(const std::string& folder);

// Every picture that metadata/*.npy lists, in the order of the files' numbers. In spite of their
// name these are texts, one picture a line: folder, file, number, label and more. Throws a data
// Error naming file and line for a line with fewer fields, a label other than 0 and 1, or a path
// that leaves the folder.
std::unique_ptr<ImageDataset> open_pathfinder_archive(const std::string& folder);

// Whether PREFIX-images-idx3-ubyte or the same with .gz is a file.
bool is_pathfinder_idx(const std::string& prefix);

// PREFIX-images-idx3-ubyte[.gz] and PREFIX-labels-idx1-ubyte[.gz]. Throws what read_idx throws, and
// a data Error for labels other than 0 and 1 or files that do not fit together.
std::unique_ptr<ImageDataset> open_pathfinder_idx(const std::string& prefix);

}  // namespace tost
