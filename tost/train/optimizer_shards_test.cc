#include "tost/train/optimizer_shards.h"

#include <gtest/gtest.h>

#include "tost/comm/processes_test_util.h"
#include "tost/engine/run_layout.h"
#include "tost/io/safetensors_index.h"
#include "tost/train/adamw.h"

namespace tost {
namespace {

using testing::in_processes;
using torch::Tensor;

// One parameter of half the elements, a transposed one, and small ones.
std::vector<ParamGroup> params_of_shapes() {
  ParamGroup group{.names = {}, .params = {}, .weight_decay = 0.1};
  torch::manual_seed(1);
  const auto add = [&](const char* name, const Tensor& values) {
    group.names.emplace_back(name);
    group.params.push_back(values.set_requires_grad(true));
  };
  add("bias", torch::randn({7}));
  add("large", torch::randn({40, 50}));
  add("turned", torch::randn({30, 20}).t());
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) add(name, torch::randn({25, 10}));
  return {group};
}

StateDict whole_moments(const std::vector<ParamGroup>& groups) {
  AdamW optimizer(groups, {});
  torch::manual_seed(2);
  for (int step = 0; step < 2; ++step) {
    for (const Tensor& p : groups[0].params) {
      if (step == 1 && p.numel() == 7) continue;
      Tensor(p).mutable_grad() = torch::randn_like(p);
    }
    optimizer.step(0.1);
    optimizer.zero_grad();
  }
  return optimizer.state();
}

int64_t elements_of(const StateDict& state) {
  int64_t all = 0;
  for (const auto& [name, tensor] : state) all += tensor.numel();
  return all;
}

class Shards : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, Shards, ::testing::Values(1, 2, 4));

TEST_P(Shards, AreTheWholeStateAndBackAgain) {
  in_processes({.world = GetParam()}, [](Group& group) {
    const auto groups = params_of_shapes();
    const StateDict whole = whole_moments(groups);
    for (const int64_t bytes : {64, 4000, 1 << 20}) {
      GradientBuckets buckets(group, groups[0].params, {.bytes = bytes, .scatter = true});
      const OptimizerShards shards(group, buckets, groups);
      AdamW optimizer(shards.groups(), {});
      optimizer.load_state(shards.my_moments(whole));
      const StateDict shard = shards.shard_of(optimizer.state());

      int64_t largest = 0;
      for (const Tensor& p : groups[0].params) largest = std::max(largest, p.numel());
      const int64_t fair = elements_of(whole) / group.world();
      EXPECT_LE(elements_of(shard), fair + 2 * largest);
      for (const auto& [key, tensor] : shard) {
        EXPECT_TRUE(torch::equal(tensor, whole.at(key))) << key;
        EXPECT_EQ(tensor.strides(), whole.at(key).strides()) << key;
      }
      Tensor together = torch::full({1}, elements_of(shard), torch::kLong);
      group.sum(together);
      EXPECT_EQ(together.item<int64_t>(), elements_of(whole));
    }
  });
}

TEST_P(Shards, TheIndexNamesWhatEachProcessHas) {
  in_processes({.world = GetParam()}, [](Group& group) {
    const auto groups = params_of_shapes();
    GradientBuckets buckets(group, groups[0].params, {.scatter = true});
    const OptimizerShards shards(group, buckets, groups);
    StateDict own = shards.shard_of(AdamW(shards.groups(), {}).state());
    own["random.cpu"] = torch::zeros({3}, torch::kByte);
    const std::string text = group.broadcast_text(group.first() ? shards.index_text(own) : "");
    const SafetensorsIndex index = parse_safetensors_index(text, "the index");
    EXPECT_EQ(int64_t(index.shards.size()), shards.shards());
    EXPECT_LE(shards.shards(), group.world());
    const auto file = index.shards.find(optimizer_shard_name(group.rank(), shards.shards()));
    std::set<std::string> held;
    for (const auto& [key, tensor] : own) {
      if (key != "random.cpu" || group.first()) held.insert(key);
    }
    EXPECT_EQ(file == index.shards.end() ? std::set<std::string>{} : file->second, held);
  });
}

}  // namespace
}  // namespace tost
