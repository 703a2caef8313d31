// The part of `tost data` that is about labelled sequences.
#pragma once

#include <CLI/CLI.hpp>

#include "tost/cli/options.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

struct SequenceOptions {
  SequenceSpec spec;      // path and format come from --data and --data-format
  bool sequence = false;  // pictures as pixels too
  std::string against;
  std::string split;
};

// The settings of generated sets and --max-length.
void add_sequence_options(CLI::App& command, SequenceSpec& spec);

// Whether --data and --data-format mean sequences; fills the spec's path and format.
bool means_sequences(SequenceOptions& options, const DataSpec& data);

void show_sequences(const SequenceOptions& options, const RunOptions& run);

void add_make_sequences(CLI::App& make);

}  // namespace tost
