// The common part of the tasks of all kinds: model, description of the model, and fetched batch.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tost/base/text.h"
#include "tost/nn/decay_groups.h"
#include "tost/nn/layer_rates.h"
#include "tost/train/muon.h"
#include "tost/train/train_task.h"

namespace tost {

// Throws a usage Error if a run starts from the file `from` and requests another mixer than `has`.
inline void check_same_mixer(const std::string& from, const std::string& has,
                             const std::string& wanted) {
  if (wanted.empty() || wanted == has) return;
  fail_usage("'", from, "' was trained with mixer ", has, " and cannot continue with ", wanted,
             ".");
}

template <class Config, class Info, class Model, class Fetched>
class ModelTask : public TrainTask {
 public:
  const Info& info() const { return info_; }

  torch::nn::Module& model() override { return *model_; }
  int64_t rows_per_batch() const override { return config_.batch; }
  void share_batches(const BatchShare& share, Group* group) override {
    fetched_.reset();
    share_ = share;
    group_ = group;
  }
  MicroBatch next_batch() override { return computed(take_input()); }
  bool has_parts() const override { return true; }
  nlohmann::json model_description() const override { return to_json(info_); }
  std::map<std::string, std::string> model_metadata() const override { return to_metadata(info_); }

 protected:
  explicit ModelTask(const Config& config) : config_(config) {}

  std::vector<ParamGroup> with_decay(const DecayGroups& groups) const {
    const double decay = config_.weight_decay;
    std::vector<ParamGroup> both{
        {groups.decayed.names, groups.decayed.params, decay},
        {groups.exempt.names, groups.exempt.params, config_.decay_all ? decay : 0}};
    return config_.optimizer == "muon" ? with_muon(*model_, std::move(both)) : both;
  }

  Fetched take_fetched() {
    if (!fetched_) fetch();
    return *std::exchange(fetched_, std::nullopt);
  }

  // Throws a usage Error if bounds are requested for layers without memberships.
  void check_bound_steps(bool causal) const {
    if (config_.bound_every_steps <= 0 || has_layer_rates(*model_)) return;
    fail_usage("bound_every_steps measures layers with memberships, which mixer ",
               info_.config.mixer, " does not have; the mixers that do are ",
               join(mixers_with_rates(causal), ", "), ".");
  }

  Config config_;
  Info info_;
  std::shared_ptr<Model> model_;
  BatchShare share_;
  Group* group_ = nullptr;
  std::optional<Fetched> fetched_;
};

}  // namespace tost
