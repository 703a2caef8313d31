#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/testing/errors.h"
#include "tost/comm/group.h"

namespace tost {
namespace {

class Place : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const auto& [name, value] : set_) unsetenv(name.c_str());
  }
  void set(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
    set_.insert(values.begin(), values.end());
  }
  std::map<std::string, std::string> set_;
};

TEST_F(Place, NothingWithoutALauncher) {
  EXPECT_FALSE(place_from_environment());
  EXPECT_EQ(launch_from_environment(), "");
}

TEST_F(Place, IsThatOfTorchrun) {
  set({{"RANK", "3"},
       {"WORLD_SIZE", "4"},
       {"LOCAL_WORLD_SIZE", "4"},
       {"MASTER_ADDR", "node1"},
       {"MASTER_PORT", "29511"},
       {"TORCHELASTIC_RUN_ID", "job"},
       {"TORCHELASTIC_RESTART_COUNT", "2"},
       {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const auto place = place_from_environment();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->world, 4);
  EXPECT_EQ(place->address, "node1");
  EXPECT_EQ(place->port, 29511);
  EXPECT_EQ(place->local_rank, 3);
  set({{"LOCAL_RANK", "1"}});
  EXPECT_EQ(place_from_environment()->local_rank, 1);
  EXPECT_EQ(place->attempt, "job/2");
  EXPECT_FALSE(place->serves_store);
  EXPECT_TRUE(place->one_machine);
}

TEST_F(Place, ContradictionsAreNamed) {
  set({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}});
  const auto message = [] { return testing::usage_error_of([] { place_from_environment(); }); };
  EXPECT_NE(message().find("RANK is '4', not a number from 0 to 3"), std::string::npos);
  set({{"RANK", "0"}, {"MASTER_PORT", "x"}});
  EXPECT_NE(message().find("MASTER_PORT is 'x'"), std::string::npos);
  set({{"WORLD_SIZE", "two"}});
  EXPECT_NE(message().find("WORLD_SIZE is 'two'"), std::string::npos);
  set({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", ""}});
  EXPECT_NE(message().find("MASTER_ADDR is not set"), std::string::npos);
}

}  // namespace
}  // namespace tost
