// Texts as bytes with a class each: folders, tables, and tables of pairs. Free of torch.
#pragma once

#include "tost/data/sequence_dataset.h"

namespace tost {

// Texts below `directory`, one folder a class, each file one text. `classes` are those of the
// training split; empty: the folders of `directory`. Throws a data Error naming an empty text, a
// class without texts, or one that training does not have. Only the first `max_length` bytes are
// kept (0: all).
SequenceRows read_text_folders(const std::string& directory,
                               const std::vector<std::string>& classes, int64_t max_length);

// The class folders of `directory`, without "unsup" (IMDB), in order of their names.
std::vector<std::string> text_classes(const std::string& directory);

// The classes of a table: label<TAB>text, or label<TAB>id<TAB>id<TAB>text<TAB>text for `pairs`.
// Whole numbers in their order, else by name; "1.0" counts as 1.
std::vector<std::string> table_classes(const std::string& path, bool pairs);

// The table itself; classes as above. Throws a data Error naming the line of a missing column, an
// empty text or a label that is not among `classes`.
SequenceRows read_text_table(const std::string& path, const std::vector<std::string>& classes,
                             bool pairs);

}  // namespace tost
