// Data sets that are known by name: those that are generated here, and those that others publish.
#pragma once

#include <string>
#include <vector>

namespace tost {

// shapes and listops. Such a name means the generated set in every folder; a path
// that looks like it is written ./listops.
const std::vector<std::string>& generated_sets();
// Those that are sequences: all but shapes.
const std::vector<std::string>& generated_sequences();

// Whether data of this path and format ("auto", or as in DataSpec and SequenceSpec) is generated.
bool means_generated(const std::string& path, const std::string& format);

// For the end of a message that there is nothing at the path: who publishes the set that its last
// part names, under which licence, and what its folder holds. "" for other names.
std::string origin_of(const std::string& path);

}  // namespace tost
