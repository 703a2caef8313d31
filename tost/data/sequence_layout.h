// What lies at a path: which kind of labelled sequences, in which files. Free of torch.
#pragma once

#include <map>

#include "tost/data/sequence_dataset.h"

namespace tost {

struct SequenceSource {
  enum class Kind {
    kGenerated,
    kTables,    // a table a split
    kFolders,   // class folders of texts
    kFolds,     // class folders of texts whose names tell the split
    kPictures,  // what open_image_dataset reads
    kArchives,  // Pathfinder, an archive a split
    kWhole      // Pathfinder without splits: an archive, or the beginning of two idx files' names
  };
  Kind kind = Kind::kGenerated;
  std::string format;                        // as in SequenceSpec, never "auto"
  std::map<std::string, std::string> files;  // by split; "train" alone of kFolds and kWhole
};

// Throws a usage Error for an unknown format or impossible settings, a data Error where nothing
// that is known lies at the path.
SequenceSource find_sequences(const SequenceSpec& spec);

// What all splits take their classes from: the training split, or the first there is.
const std::string& first_split(const std::map<std::string, std::string>& files);

// The splits that the source has by itself, in the order train, validation, test.
std::vector<std::string> own_splits(const SequenceSource& source, const SequenceSpec& spec);

// The fold split of the reviews of Pang and Lee (2004): files cvNNN_... with NNN below 800 are for
// training, below 900 for validation, the others for testing. "" for another name.
std::string fold_of(const std::string& file_name);

}  // namespace tost
