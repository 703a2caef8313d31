// Scores of a finished training run of an image classifier.
#pragma once

#include "tost/train/run_kind.h"

namespace tost {

// By the model of the run's last checkpoint on the rule's split, and on its damaged pictures
// (seed 0).
std::optional<RunScores> score_pictures(const std::filesystem::path& run,
                                        const nlohmann::json& rule, const std::atomic<bool>* stop);

}  // namespace tost
