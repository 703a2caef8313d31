// Generated sequences written as files that other programs of the benchmark read too.
#pragma once

#include <functional>

#include "tost/data/sequence_dataset.h"

namespace tost {

struct SequenceExportOptions {
  std::function<void(int64_t done, int64_t total)> progress;
  std::function<bool()> stop;  // asked every few samples
};

struct SequenceExport {
  int64_t samples = 0;
  int64_t bytes = 0;
};

// Writes the generated set of `spec` (listops) as the folder `out`, at once or not at all (until
// then it is OUT/../.NAME.tost-unfinished): basic_train.tsv, basic_val.tsv and basic_test.tsv, as
// the official generator writes them.
// open_sequence_dataset(out) then gives the same samples as `spec`. Returns zeros where `stop` said
// so, and nothing is left. Throws a usage Error for another set or where `out` is there and not
// empty, a data Error where the disk has no room for what is expected (estimated from the first
// samples) or a file cannot be written.
SequenceExport export_sequences(const SequenceSpec& spec, const std::string& out,
                                const SequenceExportOptions& options = {});

}  // namespace tost
