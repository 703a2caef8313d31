// Collects and compares the facts of all processes of a run.
#include <torch/version.h>

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/nn/module_device.h"
#include "tost/train/shared_save.h"

namespace tost {
namespace {

using nlohmann::json;
using Facts = nlohmann::ordered_json;

// A checksum of the first batch's bytes, which also depends on the order of samples.
std::string first_batch_of(TrainTask& task) {
  if (!task.has_parts()) return "";
  task.start_epoch(0, 0);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const torch::Tensor& tensor : task.take_input().tensors) {
    if (!tensor.defined()) continue;
    const torch::Tensor whole = tensor.contiguous();
    const auto* byte = static_cast<const uint8_t*>(whole.const_data_ptr());
    for (size_t i = 0; i < whole.nbytes(); ++i) hash = (hash ^ byte[i]) * 0x100000001b3;
  }
  return format_text("%016llx", static_cast<unsigned long long>(hash));
}

std::string difference(const Facts& reported, const Facts& usual, int64_t rank) {
  for (const auto& [key, value] : usual.items()) {
    const Facts local_value = reported.contains(key) ? reported[key] : Facts();
    if (local_value == value) continue;
    return cat("Rank ", rank, " has ", key, " ", json_text(local_value), " but rank 0 has ",
               json_text(value), "; start every process with the same program, settings and data.");
  }
  return "";
}

}  // namespace

Facts facts_of(const std::string& build, const std::string& config, const std::string& model,
               TrainTask& task) {
  Facts facts{{"torch", TORCH_VERSION}, {"build", build}};
  const json settings = parse_json(config, "the configuration");
  for (const auto& [key, value] : settings.items()) facts["setting " + key] = value;
  const json described = parse_json(model, "the description");
  for (const auto& [key, value] : described.items()) facts["model " + key] = value;
  facts["a device"] = c10::DeviceTypeName(device_of(task.model()).type(), /*lower_case=*/true);
  facts["batches per epoch"] = task.batches_per_epoch();
  facts["a first batch with checksum"] = first_batch_of(task);
  return facts;
}

void check_same(Group& group, const Facts& facts) {
  const std::vector<std::string> all = group.gather_texts(json_text(facts));
  group.together([&] {
    if (!group.first()) return;
    const Facts usual = parse_ordered_json(all[0], "the facts of rank 0");
    for (int64_t rank = 1; rank < group.world(); ++rank) {
      const Facts reported = parse_ordered_json(all[size_t(rank)], cat("the facts of rank ", rank));
      // The second comparison finds keys that process 0 lacks.
      std::string found = difference(reported, usual, rank);
      if (found.empty() && reported.size() != usual.size())
        found = cat("Rank ", rank,
                    " has more settings than rank 0; start every process with the same program.");
      if (!found.empty()) fail_usage(found);
    }
  });
}

}  // namespace tost
