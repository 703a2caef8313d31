// Whether all processes of a run train the same: settings, data, build and torch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tost/comm/group.h"
#include "tost/train/train_task.h"

namespace tost {

// What must be equal, under the words of a message, causes before what follows from them. Reads the
// first batch, so that the task's next call is start_epoch(). `config` and `model` are texts of
// JSON objects.
nlohmann::ordered_json facts_of(const std::string& build, const std::string& config,
                                const std::string& model, TrainTask& task);

// Throws on all processes where one of them has other facts than process 0: a usage Error that
// names it and the first difference.
void check_same(Group& group, const nlohmann::ordered_json& facts);

}  // namespace tost
