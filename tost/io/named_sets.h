// Data sets with known names: generated sets, and published sets.
#pragma once

#include <string>
#include <vector>

namespace tost {

// The names of a data set's splits.
inline const std::vector<std::string> kSplits = {"train", "validation", "test"};

// The names shapes and listops, which mean generated sets in every folder; ./listops is a path.
const std::vector<std::string>& generated_sets();
// The names of the generated sets of sequences.
const std::vector<std::string>& generated_sequences();

// Whether data of this path and format ("auto", or as in DataSpec and SequenceSpec) is generated.
bool means_generated(const std::string& path, const std::string& format);

// The end of a message about a missing path, if its last part names a published set: publisher,
// licence and files of the set. "" for other names.
std::string origin_of(const std::string& path);

}  // namespace tost
