// What a SequenceSpec asks of the generators.
#pragma once

#include "tost/data/listops.h"
#include "tost/data/sequence_dataset.h"

namespace tost {

inline int64_t generated_size(const SequenceSpec& spec, const std::string& split) {
  return split == "train" ? spec.train_size : spec.test_size;
}

inline ListOpsRules generated_rules(const SequenceSpec& spec) {
  return {spec.max_depth, spec.max_arguments, spec.min_tokens, spec.max_tokens};
}

}  // namespace tost
