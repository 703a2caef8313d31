// What a SequenceSpec asks of the generators.
#pragma once

#include <memory>

#include "tost/data/listops.h"
#include "tost/data/pathfinder_dataset.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

inline int64_t generated_size(const SequenceSpec& spec, const std::string& split) {
  return split == "train" ? spec.train_size : spec.test_size;
}

inline ListOpsRules generated_rules(const SequenceSpec& spec) {
  return {spec.max_depth, spec.max_arguments, spec.min_tokens, spec.max_tokens};
}

// Of path "pathfinder", or "pathx", which is the same at side 128.
inline std::unique_ptr<GeneratedPathfinder> generated_pathfinder(const SequenceSpec& spec,
                                                                 const std::string& split) {
  const int64_t side = spec.path == "pathx" ? 128 : spec.side;
  return std::make_unique<GeneratedPathfinder>(pathfinder_rules(side, spec.contour_length),
                                               spec.seed, split, generated_size(spec, split));
}

}  // namespace tost
